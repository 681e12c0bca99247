"""Decodes PNG files without an image library, for tests that check pixels."""

import struct
import zlib


class Picture:
    """An 8-bit picture with three or four channels, not interlaced, as plots are saved."""

    def __init__(self, data):
        assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:16]
        at, packed, kind = 8, b"", None
        while at < len(data):
            size, kind = struct.unpack(">I4s", data[at : at + 8])
            part = data[at + 8 : at + 8 + size]
            (checksum,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
            assert zlib.crc32(kind + part) == checksum, kind
            if kind == b"IHDR":
                self.width, self.height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", part)
                assert (depth, interlaced) == (8, 0) and color in (2, 6), (depth, color, interlaced)
            elif kind == b"IDAT":
                packed += part
            at += 12 + size
        assert kind == b"IEND", kind
        self.channels = 3 if color == 2 else 4
        self.rows = self.unfilter(zlib.decompress(packed))

    def unfilter(self, raw):
        step, rows = self.channels, []
        line = self.width * step
        assert len(raw) == self.height * (line + 1), len(raw)
        above = bytearray(line)
        for y in range(self.height):
            start = y * (line + 1)
            how, row = raw[start], bytearray(raw[start + 1 : start + 1 + line])
            if how == 2:
                row = bytearray((a + b) & 255 for a, b in zip(row, above))
            elif how:
                for i in range(line):
                    left, upper = (row[i - step], above[i - step]) if i >= step else (0, 0)
                    row[i] = (row[i] + self.guess(how, left, above[i], upper)) & 255
            rows.append(row)
            above = row
        return rows

    @staticmethod
    def guess(how, left, above, upper):
        if how == 1:
            return left
        if how == 3:
            return (left + above) // 2
        estimate = left + above - upper
        far = [(abs(estimate - value), place, value) for place, value in enumerate((left, above, upper))]
        return min(far)[2]

    @property
    def size(self):
        return self.width, self.height

    def pixel(self, x, y):
        """Red, green and blue."""
        return tuple(self.rows[y][x * self.channels : x * self.channels + 3])

    def count(self, color):
        """How many pixels have exactly this color."""
        return sum(self.pixel(x, y) == color for y in range(self.height) for x in range(self.width))
