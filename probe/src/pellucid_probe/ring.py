"""A ring of records in shared memory: one writer process, any number of readers.

    header (4096 bytes)   magic, sizes, head, counters, clock anchor
    data                  segments of SEGMENT_BYTES; a record never crosses a segment's end

    record = length u32 | crc32 u32 | sequence u64 | kind u32 | 0 u32 | payload, padded to 8 bytes

Offsets are virtual: they only grow, and `offset % data_bytes` is the place. The oldest records are overwritten.
A reader that fell behind goes on at the start of a segment, which is always the start of a record. A record
counts only if sequence and checksum agree, so it does not matter in which order another core sees the stores.
The file is allocated whole before use, on tmpfs: a sparse or disk-backed mapping can stall or kill the writer.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from typing import Iterable, List, Optional, Tuple

MAGIC = b"PLCDRNG1"
HEADER_BYTES = 4096
SEGMENT_BYTES = 256 * 1024
RECORD = struct.Struct("<IIQII")
PADDING = 0xFFFFFFFF   # kind of the filler at a segment's end

# Places of the header's u64 words.
_SEGMENT, _DATA, _HEAD, _DROPPED, _PID, _MONO, _WALL = range(1, 8)

Record = Tuple[int, bytes]  # kind, payload
_TO_8 = tuple(bytes(-length % 8) for length in range(8))


class RingError(Exception):
    """The ring cannot be made or read; the message says why."""


class RingWriter:
    """Writes records; never blocks, never does IO after construction. Raises RingError when it cannot be allocated."""

    def __init__(self, path: str, data_bytes: int) -> None:
        segments = max(4, data_bytes // SEGMENT_BYTES)
        self.data_bytes = segments * SEGMENT_BYTES
        unfinished = f"{path}.new"     # a reader must not find a ring before its header is there
        self._map = _allocate(unfinished, HEADER_BYTES + self.data_bytes)
        self._words = memoryview(self._map)[: 16 * 8].cast("Q")
        self._head = 0
        self._sequence = 0
        self.dropped_count = 0
        words = self._words
        words[_SEGMENT], words[_DATA], words[_PID] = SEGMENT_BYTES, self.data_bytes, os.getpid()
        words[_MONO], words[_WALL] = time.monotonic_ns(), time.time_ns()
        self._map[:8] = MAGIC
        os.rename(unfinished, path)

    def write(self, kind: int, payload: bytes) -> None:
        """Puts one record into the ring. One thread at a time."""
        self.write_all([(kind, payload)])

    def write_all(self, records: "Iterable[Record]") -> None:
        """Puts records into the ring, those of a segment in one copy. One thread at a time."""
        parts: List[bytes] = []
        start = head = self._head
        room, sequence = SEGMENT_BYTES - head % SEGMENT_BYTES, self._sequence
        for kind, payload in records:
            length = len(payload)
            size = (RECORD.size + length + 7) & ~7
            if size > SEGMENT_BYTES:
                self.dropped_count += 1
                self._words[_DROPPED] = self.dropped_count
                continue
            if size > room:
                if room >= RECORD.size:
                    parts.append(RECORD.pack(0, _checksum(sequence, PADDING, b""), sequence, PADDING, 0))
                    sequence += 1
                self._put(start, parts)
                parts.clear()
                start = head = head + room
                room = SEGMENT_BYTES
            parts += (RECORD.pack(length, _checksum(sequence, kind, payload), sequence, kind, 0), payload,
                      _TO_8[length % 8])  # fmt: skip
            sequence += 1
            head += size
            room -= size
        self._put(start, parts)
        self._sequence = sequence
        self._head = self._words[_HEAD] = head

    def _put(self, head: int, parts: List[bytes]) -> None:
        data = b"".join(parts)
        at = HEADER_BYTES + head % self.data_bytes
        self._map[at : at + len(data)] = data


class RingReader:
    """Follows a ring. `poll` returns what is new; what was lost or torn is counted, never guessed."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size < HEADER_BYTES + 4 * SEGMENT_BYTES:
                raise RingError(f"{path} has {size} bytes: too small for a ring")
            self._map = mmap.mmap(f.fileno(), size, prot=mmap.PROT_READ)
        if self._map[:8] != MAGIC:
            raise RingError(f"{path} is not a ring of this version (magic {self._map[:8]!r})")
        self._words = memoryview(self._map)[: 16 * 8].cast("Q")
        self.segment_bytes, self.data_bytes = self._words[_SEGMENT], self._words[_DATA]
        if self.segment_bytes <= 0 or HEADER_BYTES + self.data_bytes > size:
            raise RingError(f"{path}: header says {self.data_bytes} bytes of data, the file has {size}")
        self.pid, self.anchor = self._words[_PID], (self._words[_MONO], self._words[_WALL])
        self.lost_count = 0
        self.torn_count = 0
        self._offset = 0
        self._sequence = 0
        self._retries = 0

    @property
    def dropped_count(self) -> int:
        return int(self._words[_DROPPED])

    def poll(self, limit: int = 100_000) -> List[Record]:
        """New records in order, at most `limit`. A gap in what the writer wrote raises `lost_count`."""
        records: List[Record] = []
        head = int(self._words[_HEAD])
        self._catch_up(head)
        while self._offset < head and len(records) < limit:
            room = self.segment_bytes - self._offset % self.segment_bytes
            if room < RECORD.size:
                self._offset += room
                continue
            record = self._read(room)
            if record is None:
                if not self._give_up(head):
                    break
                continue
            if record[0] != PADDING:
                records.append(record)
        return records

    def close(self) -> None:
        self._words.release()
        self._map.close()

    def _read(self, room: int) -> Optional[Record]:
        at = HEADER_BYTES + self._offset % self.data_bytes
        length, crc, sequence, kind, _ = RECORD.unpack_from(self._map, at)
        if length > room - RECORD.size or sequence < self._sequence:
            return None
        payload = self._map[at + RECORD.size : at + RECORD.size + length]
        if _checksum(sequence, kind, payload) != crc:
            return None
        self.lost_count += sequence - self._sequence
        self._sequence = sequence + 1
        self._offset += room if kind == PADDING else (RECORD.size + length + 7) & ~7
        self._retries = 0
        return kind, payload

    def _catch_up(self, head: int) -> None:
        """Overtaken, or nearly: go on at the oldest segment that is still whole."""
        oldest = head - self.data_bytes + self.segment_bytes
        if self._offset < oldest:
            self._offset = -(-oldest // self.segment_bytes) * self.segment_bytes

    def _give_up(self, head: int) -> bool:
        """A record that does not check: try again later, a few times, then skip its segment."""
        self._retries += 1
        if self._retries < 4:
            return False
        self._retries = 0
        self.torn_count += 1
        self._offset = min(head, (self._offset // self.segment_bytes + 1) * self.segment_bytes)
        return True


def _checksum(sequence: int, kind: int, payload: bytes) -> int:
    """crc32 of the payload, started from what the header says, so that a stale header does not fit a new payload."""
    return zlib.crc32(payload, (sequence * 2654435761 + kind) & 0xFFFFFFFF)


def _allocate(path: str, size: int) -> mmap.mmap:
    kind = filesystem_of(os.path.dirname(path))
    if kind != "tmpfs":
        raise RingError(f"{os.path.dirname(path)} is on {kind}, not on tmpfs; a folder under /dev/shm will do")
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        ring = mmap.mmap(fd, size)
        for page in range(0, size, mmap.PAGESIZE):
            ring[page] = 0    # mapped now, or each page costs a fault in the middle of a step
        return ring
    except OSError as error:
        os.unlink(path)
        raise RingError(f"{path}: cannot allocate {size} bytes: {error.strerror}") from error
    finally:
        os.close(fd)


def filesystem_of(folder: str) -> str:
    """Type of the filesystem a folder is on (`tmpfs`, `ext4`, …), from the kernel's mount table."""
    real, best, kind = os.path.realpath(folder), "", "an unknown filesystem"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            fields = line.split()
            mount = fields[4].encode().decode("unicode_escape")
            inside = real == mount or real.startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, fields[fields.index("-") + 1]
    return kind
