"""Files that appear when they are whole."""

from __future__ import annotations

import gzip
import os
import stat
import threading
from pathlib import Path

import pytest

from xscl.base.atomic_files import check_place, written_whole
from xscl.base.errors import EngineError


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, zipped: bool) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"before")
    with pytest.raises(KeyError), written_whole(target, zipped=zipped) as stream:
        stream.write(b"half")
        raise KeyError
    assert target.read_bytes() == b"before"
    with written_whole(target, zipped=zipped) as stream:
        stream.write(b"after")
        assert target.read_bytes() == b"before"
    assert (gzip.decompress(target.read_bytes()) if zipped else target.read_bytes()) == b"after"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("zipped", [False, True])
def test_nothing_takes_the_place_of_a_pipe(tmp_path: Path, zipped: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with written_whole(pipe, zipped=zipped) as stream:
        stream.write(b"all")
    reader.join()
    assert (gzip.decompress(read[0]) if zipped else read[0]) == b"all"
    assert stat.S_ISFIFO(pipe.stat().st_mode) and list(tmp_path.iterdir()) == [pipe]


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with written_whole(tmp_path / "link") as stream:
        stream.write(b"all")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"all"


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "file", tmp_path / "file" / "below"):
        with pytest.raises(EngineError) as refused:
            check_place(path)
        assert refused.value.condition == "XSCL_CANNOT_WRITE"
        with pytest.raises(EngineError) as refused, written_whole(path):
            pass
        assert refused.value.condition == "XSCL_CANNOT_WRITE"
    with pytest.raises(EngineError) as refused, written_whole(tmp_path):
        pass
    assert refused.value.condition == "XSCL_CANNOT_WRITE"
