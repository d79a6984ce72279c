"""Workers are forked with what tasks import, and from a process with one thread; their tasks wait for nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time

import pytest

from xscl.spark.worker_daemon import acknowledging

PREPARED = """
import os, sys
from xscl.spark import worker_daemon
worker_daemon.prepare()
print(len(os.listdir("/proc/self/task")), all(name in sys.modules for name in worker_daemon._NEEDED))
"""
TASKS = 6


def test_the_daemon_has_what_tasks_import_and_no_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"


def a_task(connection: socket.socket, authenticated: bool) -> int:
    """Take two small pieces, and answer."""
    taken = 0
    while taken < 2:
        taken += len(connection.recv(2))
    connection.sendall(b"0")
    return 0


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="the system has no such option")
def test_a_task_gets_small_pieces_as_they_are_sent() -> None:
    task, seconds = acknowledging(a_task), []
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as java:
        connection, _ = server.accept()
        worker = threading.Thread(target=lambda: [task(connection, True) for _ in range(TASKS)])
        worker.start()
        for _ in range(TASKS):
            began = time.perf_counter()
            for piece in (b"1", b"2"):
                java.send(piece)
            java.recv(1)
            seconds.append(time.perf_counter() - began)
        worker.join()
        connection.close()
    # Without the option, all but the first wait 40 ms.
    assert min(seconds[1:]) < 0.02


def test_sockets_that_are_files_have_no_such_option() -> None:
    java, connection = socket.socketpair()
    with java, connection:
        java.send(b"12")
        assert acknowledging(a_task)(connection, True) == 0
