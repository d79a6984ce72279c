"""Compressed input and tar archives, as files and through pipes, sound and hostile."""

import bz2
import gzip
import io
import lzma
import tarfile

import pyarrow as pa
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.types import Event
from xscl.ingest import archives
from xscl.ingest.reading import Reading
from xscl.ingest.records import Rejected
from xscl.ingest.sources import read_paths


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKERS = {"none": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zstd": zstd}


def tar(*members, format=tarfile.PAX_FORMAT):
    """An archive of (name or TarInfo, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def read(data, **options):
    return list(read_paths(["-"], Reading(**options), stdin=io.BytesIO(data)))


def outline(data, **options):
    """What became of each record, and where it was."""
    return [(getattr(record, "condition", "taken"), record.source) for record in read(data, **options)]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_documents_in_every_compression(pack):
    assert read(pack(b"<a/>")) == [Event("documents", xml=b"<a/>", source="-")]
    assert read(pack(b""))[0].condition == "XSCL_UNKNOWN_FORMAT"


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_in_every_compression(pack, format):
    lines = b'{"channel": "S", "id": "1", "xml": "<a/>"}\n' * 2
    data = pack(tar(("b.xml", b"<a/>"), ("d/e.ndjson", lines), ("a.xml", b"<b/>"), format=format))
    assert outline(data) == [
        ("taken", "-!b.xml"),
        ("taken", "-!d/e.ndjson:1"),
        ("taken", "-!d/e.ndjson:2"),
        ("taken", "-!a.xml"),
    ]


def test_several_streams_behind_each_other():
    for pack in (gzip.compress, bz2.compress, lzma.compress, zstd):
        assert read(pack(b"<a>") + pack(b"</a>"))[0].xml == b"<a></a>"
    assert read(lzma.compress(b"<a/>") + bytes(64))[0].xml == b"<a/>"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_truncated_and_damaged(pack):
    data = pack(tar(("a.xml", b"<a/>"), ("b.xml", b"<b>" + bytes(range(32, 60)) * 5000 + b"</b>")))
    for size in (len(data) // 2, len(data) - 30):
        found = read(data[:size])
        assert isinstance(found[-1], Rejected) and found[-1].condition == "XSCL_SOURCE_UNREADABLE"
    assert read(data[:40] + b"\xff" * 30 + data[70:])[-1].condition.startswith("XSCL_")


def test_truncated_tar():
    data = tar(("a.xml", b"<a/>"), ("b.xml", b"<b>%s</b>" % (b"x" * 2000)))
    assert outline(data[: 512 * 3 + 700]) == [
        ("taken", "-!a.xml"),
        ("XSCL_SOURCE_UNREADABLE", "-!b.xml"),
        ("XSCL_SOURCE_UNREADABLE", "-"),
    ]
    assert outline(data[: 512 * 2 + 100]) == [("taken", "-!a.xml"), ("XSCL_SOURCE_UNREADABLE", "-")]
    # Without the zeros at the end nothing is missing.
    assert outline(data[: 512 * 2]) == [("taken", "-!a.xml")]
    broken = bytearray(data)
    broken[512 * 2 + 150] ^= 0xFF
    assert outline(bytes(broken)) == [("taken", "-!a.xml"), ("XSCL_SOURCE_UNREADABLE", "-")]


def test_what_is_no_regular_file_inside_is_passed_over():
    def special(name, kind, target=""):
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = target
        return info, b""

    data = tar(
        special("link.xml", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard.xml", tarfile.LNKTYPE, "good.xml"),
        special("device", tarfile.CHRTYPE),
        special("pipe", tarfile.FIFOTYPE),
        special("folder", tarfile.DIRTYPE),
        ("/etc/x.xml", b"<a/>"),
        ("../x.xml", b"<a/>"),
        ("d/../../x.xml", b"<a/>"),
        (".hidden.xml", b"<a/>"),
        ("d/.git/x.xml", b"<a/>"),
        ("./good.xml", b"<a/>"),
    )
    assert outline(data) == [("taken", "-!./good.xml")]


def test_sparse_members_are_passed_over():
    info = tarfile.TarInfo("sparse.xml")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = b"00000000000\0"
    header[398:410] = b"00000000000\0"
    header[483:495] = b"77777777777\0"  # claims 8 GB of zeros
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    data = bytes(header) + tar(("a.xml", b"<a/>"))
    assert outline(data) == [("taken", "-!a.xml")]


def test_archives_in_archives():
    inner = gzip.compress(tar(("a.xml.gz", gzip.compress(b"<a/>"))))
    assert outline(tar(("in.tgz", inner), ("b.xml", b"<b/>"))) == [("taken", "-!in.tgz!a.xml.gz"), ("taken", "-!b.xml")]
    deep = b"<a/>"
    for _ in range(archives.MAX_LAYERS):
        deep = gzip.compress(deep)
    assert outline(deep) == [("taken", "-")]
    assert outline(gzip.compress(deep)) == [("XSCL_SOURCE_LIMIT", "-")]
    # Each member has the layers to itself.
    assert outline(tar(*[(f"{n}.xml.gz", gzip.compress(b"<a/>")) for n in range(9)]))[-1] == ("taken", "-!8.xml.gz")


def test_members_are_counted(monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    members = [(f"{n}.xml", b"<a/>") for n in range(9)]
    assert outline(tar(*members[:3]))[-1] == ("taken", "-!2.xml")
    assert outline(tar(*members)) == [*(("taken", f"-!{n}.xml") for n in range(3)), ("XSCL_SOURCE_LIMIT", "-")]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_bombs(monkeypatch, pack):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 100_000)
    bomb = b"<a>" + b" " * 1_000_000 + b"</a>"
    assert outline(pack(bomb)) == [("XSCL_SOURCE_LIMIT", "-")]
    assert outline(pack(tar(("a.xml", b"<a/>"), ("b.xml", bomb), ("c.xml", b"<c/>")))) == [
        ("taken", "-!a.xml"),
        ("XSCL_SOURCE_LIMIT", "-!b.xml"),
    ]
    assert outline(tar(("b.xml", pack(bomb)), ("c.xml", b"<c/>"))) == [("XSCL_SOURCE_LIMIT", "-!b.xml")]
    # What is passed over is unpacked, too.
    assert outline(pack(tar((".b.xml", bomb), ("c.xml", b"<c/>"))))[-1] == ("XSCL_SOURCE_LIMIT", "-")


def test_headers_without_end():
    huge = tarfile.TarInfo("a.xml")
    huge.pax_headers = {"comment": "x" * 3_000_000}
    assert outline(tar((huge, b"<a/>"))) == [("XSCL_SOURCE_LIMIT", "-")]
    long = tarfile.TarInfo("n" * 200_000)
    assert outline(tar((long, b"<a/>"), ("b.xml", b"<b/>"), format=tarfile.GNU_FORMAT)) == [("taken", "-!b.xml")]
    (record,) = read(tar(("\x1b[2Ja\n.xml", b"<a/>")))
    assert record.source == r"-!\x1b[2Ja\n.xml"
    assert len(outline(tar(("a" * 90 + ".xml", b"<a/>"), *[("b.xml", b"<b/>")] * 200))) == 201


def test_memory_that_xz_asks_for():
    greedy = lzma.compress(b"<a/>", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}])
    (record,) = read(greedy)
    assert record.condition == "XSCL_SOURCE_UNREADABLE" and "emory" in record.message


def test_a_pipe_is_read_member_by_member():
    class Pipe(io.BytesIO):
        """Whose writer waits after a while."""

        read_ = 0

        def read1(self, size=-1, /):
            if self.read_ > 200_000:
                raise AssertionError("read too far")
            data = super().read1(size)
            self.read_ += len(data)
            return data

        def read(self, size=-1, /):
            raise AssertionError("read at once")

    data = tar(*[(f"{n}.xml", b"<a>%s</a>" % (b"x" * 10_000)) for n in range(100)])
    records = read_paths(["-"], stdin=Pipe(data))
    assert [next(records).source for _ in range(3)] == ["-!0.xml", "-!1.xml", "-!2.xml"]


@settings(deadline=None, max_examples=examples(80))
@given(st.binary(max_size=300), st.sampled_from(sorted(PACKERS)), st.integers(0, 2000), st.integers(0, 2000))
def test_any_bytes_in_an_archive(noise, packer, at, end):
    data = tar(("a.xml", b"<a/>"), ("b.ndjson", b"{}\n"))
    data = (data[:at] + noise + data[at + len(noise) :])[: max(600, end)]
    for found in (PACKERS[packer](data), PACKERS[packer](data)[:end] + noise):
        for record in read(found):
            if isinstance(record, Rejected):
                assert record.condition.startswith("XSCL_")
                record.message.encode()
                record.source.encode()
