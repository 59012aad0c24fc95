#!/usr/bin/python3

# Copyright (C) mcds authors

"""Reads and writes the pages of mcds in memcached.

As a program:

    mcds_page.py [options] get KEY              the page: head, then body
    mcds_page.py [options] put KEY FILE         stores FILE, "-" is stdin
    mcds_page.py [options] delete KEY

    --server HOST:PORT      may be repeated; 127.0.0.1:11211
    --behavior NAME=VALUE   of pylibmc, as ketama_weighted=1; may be repeated
    --prefix TEXT           as in mcds_pool
    --hmac-key FILE         as in mcds_cache_hmac_key
    --body                  get: the body alone
    --coding NAME           put: gzip or zstd, as in mcds_cache_compress
    --status N              put: 200
    --header 'Name: value'  put: may be repeated
    --fresh SECONDS         put: how long it is served; 60

KEY is the name of the page: its site between "<" and ">", and the text of
mcds_cache_key, for instance <example.com>http://example.com/list?page=2; of a
server{} without a name it is <>http://example.com/list?page=2.  get ends with 1
if there is no page, and with 2 if there is something else.

As a module: Page, decode(), encode(), item_key(), and Store for pylibmc.  The
format is described in docs/storage.md, "The format of a page".  Only the
standard library and pylibmc (Debian: python3-pylibmc) are used, and for zstd
its library (Debian: libzstd1).
"""

import argparse
import ctypes
import gzip
import hashlib
import hmac
import struct
import sys
import time
import zlib

UNSET = 0xffffffff
MAX_PARTS = 4096

PAGE, PASS, VARY, PURGED = range(4)

# flags
SHARED, REVALIDATE, INVALID, ABSOLUTE = 1, 2, 4, 8

# types of extensions
EXT_VARY, EXT_TAG, EXT_HMAC = 1, 2, 3

# codings of a body
GZIP, ZSTD = 1, 2

HEADER = struct.Struct("<4sBBHIIQQQQIIIIIIIIIHHIQ8xI")
PART = struct.Struct("<4sBBHIIQI4x")
TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789"
                  b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class BadEntry(ValueError):
    """The bytes are not what they should be: to nginx this is a miss."""


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82f63b78 if n & 1 else n >> 1
        table.append(n)
    return table


_CRC = _table()


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def _checksum(data):
    return crc32c(data[16:], crc32c(data[:12]))


def _zstd():
    lib = ctypes.CDLL("libzstd.so.1")
    for name in ("ZSTD_compressBound", "ZSTD_compress", "ZSTD_decompress"):
        getattr(lib, name).restype = ctypes.c_size_t
    return lib


def compress(coding, body):
    """The body in its coding."""
    if coding == GZIP:
        return gzip.compress(body, mtime=0)
    lib = _zstd()
    room = lib.ZSTD_compressBound(ctypes.c_size_t(len(body)))
    out = ctypes.create_string_buffer(room)
    n = lib.ZSTD_compress(out, ctypes.c_size_t(room), body,
                          ctypes.c_size_t(len(body)), 3)
    if lib.ZSTD_isError(ctypes.c_size_t(n)):
        raise BadEntry("not compressed")
    return out.raw[:n]


def decompress(coding, data, length):
    """The body without its coding, which has just that length."""
    if coding == GZIP:
        unzip = zlib.decompressobj(31)
        try:
            body = unzip.decompress(data, length + 1)
        except zlib.error:
            raise BadEntry("wrong body") from None
        good = unzip.eof and not unzip.unused_data
    else:
        out = ctypes.create_string_buffer(length)
        lib = _zstd()
        n = lib.ZSTD_decompress(out, ctypes.c_size_t(length), data,
                                ctypes.c_size_t(len(data)))
        good = not lib.ZSTD_isError(ctypes.c_size_t(n))
        body = out.raw[:n] if good else b""
    if not good or len(body) != length:
        raise BadEntry("wrong body")
    return body


def now():
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


def item_key(text, prefix=b""):
    """The key of an item: the text, or a hash of it if it cannot be one.  Names
    of pages begin with "<", which the keys of nothing else have."""
    mark = b"<sha1:" if text.startswith(b"<") else b"sha1:"
    if (text and len(prefix) + len(text) <= 250
            and not text.startswith(mark)
            and (mark[:1] == b"<" or b"<" not in text)
            and all(0x21 <= c <= 0x7e for c in text)):
        return prefix + text
    return prefix + mark + hashlib.sha1(text).hexdigest().encode()


class Page:
    """A page.  key and body are bytes, headers a list of pairs of bytes, times
    are milliseconds since the epoch, extensions pairs of type and bytes.  The
    body is without the coding that it has in memcached."""

    def __init__(self, key, body=b"", headers=(), status=200, fresh=60, **more):
        self.key = key
        self.body = body
        self.headers = list(headers)
        self.kind = PAGE
        self.status = status
        self.flags = 0
        self.created = now()
        self.expire = self.created + int(fresh * 1000)
        self.generation = 0
        self.age = 0
        self.swr = UNSET            # stale-while-revalidate, seconds
        self.sie = UNSET            # stale-if-error
        self.took = 0
        self.parts = 0
        self.part = 0
        self.purges = 0             # of a list and its variants
        self.total = len(body)
        self.coding = 0
        self.length = len(body)
        self.extensions = []
        self.__dict__.update(more)

    def fresh(self):
        return self.kind == PAGE and now() < self.expire


def _sign(data, at, secret, key=b""):
    """The signature of an entry: where it stands, and the checksum, are 0; that
    of a part is of its page's key, too."""
    data = bytearray(data)
    data[12:16] = bytes(4)
    data[at:at + 32] = bytes(32)
    return hmac.new(secret, data + key, hashlib.sha256).digest()


def encode(page, secret=None):
    """The value of a page that is not split."""
    for name, value in page.headers:
        _check(name, value)
    lines = b"".join(b"%s: %s\r\n" % line for line in page.headers)

    extensions = [e for e in page.extensions if e[0] != EXT_HMAC]
    if secret:
        extensions.insert(0, (EXT_HMAC, bytes(32)))
    ext = b"".join(struct.pack("<HI", t, len(d)) + d for t, d in extensions)

    body = compress(page.coding, page.body) if page.coding else page.body

    value = bytearray(HEADER.pack(
        b"MCDS", 2 if page.coding else 1, page.kind, HEADER.size, page.flags,
        0, page.expire, page.created, page.generation, len(body), page.age,
        page.swr, page.sie, page.took, len(page.key), len(ext), len(lines),
        len(body), 0, page.status, page.coding, 0,
        len(page.body) if page.coding else 0, page.purges))
    value += page.key + ext + lines + body

    if secret:
        at = HEADER.size + len(page.key) + 6
        value[at:at + 32] = _sign(value, at, secret)

    value[12:16] = struct.pack("<I", _checksum(value))
    return bytes(value)


def _check(name, value):
    if (not name or not TOKEN.issuperset(name)
            or any(c < 0x20 and c != 9 or c == 0x7f for c in value)):
        raise BadEntry("wrong headers")


def _headers(lines):
    headers = []
    for line in lines.split(b"\r\n")[:-1] if lines else ():
        name, colon, value = line.partition(b": ")
        if not colon:
            raise BadEntry("wrong headers")
        _check(name, value)
        headers.append((name, value))
    if lines and not lines.endswith(b"\r\n"):
        raise BadEntry("wrong headers")
    return headers


def decode(value, key=None, secret=None):
    """The Page of a value.  If it was split its body lacks the parts, and is
    still in its coding."""
    if len(value) < HEADER.size or value[:4] != b"MCDS":
        raise BadEntry("not an entry")

    (_, form, kind, size, flags, crc, expire, created, generation, total, age,
     swr, sie, took, nkey, next_, nheaders, nbody, parts, status, coding,
     part, length, purges) = HEADER.unpack_from(value)

    if form not in (1, 2):
        raise BadEntry("unknown format")
    if form == 1:
        coding, length = 0, total
    if size < HEADER.size or size + nkey + next_ + nheaders + nbody != \
            len(value):
        raise BadEntry("wrong sizes")
    if _checksum(value) != crc:
        raise BadEntry("wrong checksum")
    if form == 2 and coding not in (GZIP, ZSTD):
        raise BadEntry("unknown coding")
    if kind > PURGED:
        raise BadEntry("unknown kind")
    if not (200 <= status <= 599 if kind == PAGE else status == 0):
        raise BadEntry("wrong status")

    if parts == 0:
        right = total == nbody
    else:
        right = (kind == PAGE and parts <= MAX_PARTS and part > 0
                 and total > nbody
                 and (total - nbody - 1) // part == parts - 1)
    if not right or coding and (kind != PAGE or length == 0):
        raise BadEntry("wrong length of the body")

    at = [size]
    for n in (nkey, next_, nheaders, nbody):
        at.append(at[-1] + n)
    stored, ext, lines, body = (value[at[i]:at[i + 1]] for i in range(4))

    if key is not None and stored != key:
        raise BadEntry("key of another page")

    extensions = []
    signed = None
    i = 0
    while i < len(ext):
        if len(ext) - i < 6:
            raise BadEntry("wrong extensions")
        type_, n = struct.unpack_from("<HI", ext, i)
        if n > len(ext) - i - 6:
            raise BadEntry("wrong extensions")
        if type_ == EXT_HMAC and n == 32 and signed is None:
            signed = at[1] + i + 6
        extensions.append((type_, ext[i + 6:i + 6 + n]))
        i += 6 + n

    if secret and (signed is None or not hmac.compare_digest(
            value[signed:signed + 32], _sign(value, signed, secret))):
        raise BadEntry("wrong signature")

    headers = _headers(lines)

    if coding and not parts:
        body = decompress(coding, body, length)

    return Page(stored, body, headers, kind=kind, status=status,
                flags=flags, created=created, expire=expire, total=total,
                generation=generation, age=age, swr=swr, sie=sie, took=took,
                parts=parts, part=part, coding=coding, length=length,
                purges=purges, extensions=extensions)


def decode_part(value, generation, n, key=None, secret=None):
    """The data of part n of the page of a key."""
    if len(value) < PART.size or value[:4] != b"MCDP":
        raise BadEntry("not a part")
    _, form, _, size, length, crc, gen, number = PART.unpack_from(value)
    if (form != 1 or size < PART.size or size + length != len(value)
            or (gen, number) != (generation, n) or _checksum(value) != crc):
        raise BadEntry("wrong part")
    if secret and (size < PART.size + 32 or not hmac.compare_digest(
            value[PART.size:PART.size + 32],
            _sign(value, PART.size, secret, key))):
        raise BadEntry("wrong signature")
    return value[size:]


class Store:
    """Pages in memcached, by pylibmc."""

    def __init__(self, servers=("127.0.0.1:11211",), behaviors=None,
                 prefix=b"", secret=None):
        import pylibmc

        self.prefix = prefix
        self.secret = secret
        self.client = pylibmc.Client(list(servers), behaviors=behaviors or {})

        # parts are on the server of their page, not on that of their key
        self.each = [pylibmc.Client([server]) for server in servers]

    def get(self, key):
        """The whole Page, or None; BadEntry if it is not one."""
        value = self.client.get(item_key(key, self.prefix))
        if value is None:
            return None
        page = decode(_bytes(value), key, self.secret)

        for n in range(page.parts):
            page.body += self._part(page, n)
        if page.parts and len(page.body) != page.total:
            raise BadEntry("wrong length of the body")
        if page.parts and page.coding:
            page.body = decompress(page.coding, page.body, page.length)
        return page

    def _part(self, page, n):
        text = b"%s:part:%016x:%d" % (page.key, page.generation, n)
        for client in self.each:
            value = client.get(item_key(text, self.prefix))
            if value is not None:
                return decode_part(_bytes(value), page.generation, n,
                                   page.key, self.secret)
        raise BadEntry("parts are missing")

    def put(self, page):
        return self.client.set(item_key(page.key, self.prefix),
                               encode(page, self.secret))

    def delete(self, key):
        return self.client.delete(item_key(key, self.prefix))


def _bytes(value):
    if not isinstance(value, bytes):
        raise BadEntry("not plain bytes")
    return value


def main():
    parser = argparse.ArgumentParser(
        description="reads and writes the pages of mcds in memcached")
    parser.add_argument("--server", action="append")
    parser.add_argument("--behavior", action="append", default=[])
    parser.add_argument("--prefix", default="")
    parser.add_argument("--hmac-key")
    parser.add_argument("--body", action="store_true")
    parser.add_argument("--coding", choices=["gzip", "zstd"])
    parser.add_argument("--status", type=int, default=200)
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--fresh", type=float, default=60)
    parser.add_argument("what", choices=["get", "put", "delete"])
    parser.add_argument("key")
    parser.add_argument("file", nargs="?", default="-")
    args = parser.parse_args()

    behaviors = {}
    for text in args.behavior:
        name, _, value = text.partition("=")
        behaviors[name] = int(value) if value.isdigit() else value

    secret = None
    if args.hmac_key:
        with open(args.hmac_key, "rb") as file:
            secret = file.read().rstrip(b"\r\n")

    store = Store(args.server or ["127.0.0.1:11211"], behaviors,
                  args.prefix.encode(), secret)
    key = args.key.encode()

    if args.what == "delete":
        return 0 if store.delete(key) else 1

    if args.what == "put":
        headers = []
        for line in args.header:
            name, _, value = line.partition(":")
            headers.append((name.encode(), value.strip().encode()))
        if args.file == "-":
            body = sys.stdin.buffer.read()
        else:
            with open(args.file, "rb") as file:
                body = file.read()
        page = Page(key, body, headers, args.status, args.fresh)
        if body and args.coding:
            page.coding = GZIP if args.coding == "gzip" else ZSTD
        return 0 if store.put(page) else 1

    try:
        page = store.get(key)
    except BadEntry as error:
        print("mcds_page.py: %s" % error, file=sys.stderr)
        return 2

    if page is None or page.kind != PAGE:
        return 1

    out = sys.stdout.buffer
    if not args.body:
        out.write(b"Status: %d\r\n" % page.status)
        for line in page.headers:
            out.write(b"%s: %s\r\n" % line)
        out.write(b"\r\n")
    out.write(page.body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
