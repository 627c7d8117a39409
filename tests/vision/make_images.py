#!/usr/bin/env python3
"""Makes small image files of every kind, and what Pillow reads from them: upright, as red, green and blue.
usage: make_images.py FOLDER    (needs Pillow, numpy, safetensors)"""
import io
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin
from safetensors.numpy import save_file

files = {}


def pattern(height, width, channels=3):
    """A picture with slopes and edges."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((x * 13 + y * 7 + c * 60 + (x // 4 + y // 3) % 2 * 90) % 256).astype(np.uint8)


def saved(name, image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    files[name] = out.getvalue()


def exif(orientation, big=False):
    order = ">" if big else "<"
    entries = [(0x0100, 3, 1, 7), (0x0112, 3, 1, orientation)]
    out = (b"MM" if big else b"II") + struct.pack(order + "HIH", 42, 8, len(entries))
    for tag, kind, count, value in entries:
        out += struct.pack(order + "HHIHH", tag, kind, count, value, 0)
    return b"Exif\0\0" + out + struct.pack(order + "I", 0)


def xmp(orientation):
    return b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>' % orientation


# --- JPEG
picture = Image.fromarray(pattern(11, 17))
for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
    saved(f"{name}.jpg", picture, format="JPEG", quality=80, subsampling=sampling)
saved("progressive.jpg", picture, format="JPEG", quality=70, progressive=True)
saved("restart.jpg", picture, format="JPEG", quality=80, restart_marker_blocks=1)
saved("rgb.jpg", picture, format="JPEG", quality=80, keep_rgb=True)
saved("grey.jpg", picture.convert("L"), format="JPEG", quality=80)
inks = Image.fromarray(pattern(9, 10, 4), "CMYK")
saved("cmyk.jpg", inks, format="JPEG", quality=85)
marker = files["cmyk.jpg"].index(b"Adobe")
assert files["cmyk.jpg"][marker + 11] == 0  # how the inks are stored: 2 is YCCK
files["ycck.jpg"] = files["cmyk.jpg"][:marker + 11] + b"\2" + files["cmyk.jpg"][marker + 12:]
small = Image.fromarray(pattern(5, 9))
for i in range(1, 9):
    saved(f"orientation-{i}.jpg", small, format="JPEG", quality=80, exif=exif(i, big=i % 2 == 0))
saved("orientation-9.jpg", small, format="JPEG", quality=80, exif=exif(9))
saved("xmp.jpg", small, format="JPEG", quality=80, xmp=xmp(8))


# --- PNG
def png(name, rows, bits, kind, chunks=b"", after=b"", interlaced=False):
    """rows: [height, width, channels], values of `bits`"""
    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    def packed(part):
        out = b""
        for row in part:
            bits_of_row = "".join(format(int(v), f"0{bits}b") for v in row.reshape(-1))
            bits_of_row += "0" * (-len(bits_of_row) % 8)
            out += b"\0" + bytes(int(bits_of_row[i:i + 8], 2) for i in range(0, len(bits_of_row), 8))
        return out

    height, width = rows.shape[:2]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b""
    for x, y, step_x, step_y in passes if interlaced else [(0, 0, 1, 1)]:
        part = rows[y::step_y, x::step_x]
        if part.size:
            data += packed(part)
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, int(interlaced))
    parts = b"".join(chunk(tag, content) for tag, content in chunks) if chunks else b""
    end = b"".join(chunk(tag, content) for tag, content in after) if after else b""
    files[name] = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + parts + chunk(b"IDAT", zlib.compress(data)) + end + chunk(b"IEND", b"")


def values(height, width, channels, bits):
    wide = pattern(height, width, channels).astype(np.int64) * 257
    wide[::2, ::3] = wide[::2, ::3] // 300  # small ones, too
    return wide >> (16 - bits)


for bits in (1, 2, 4, 8, 16):
    png(f"grey-{bits}.png", values(6, 9, 1, bits), bits, 0)
    png(f"grey-{bits}-interlaced.png", values(9, 11, 1, bits), bits, 0, interlaced=True)
colours = pattern(16, 16, 3).reshape(-1, 3)
for bits in (1, 2, 4, 8):
    count = 2 ** bits if bits < 8 else 200
    entries = [(b"PLTE", colours[:count].tobytes()), (b"tRNS", bytes([0, 128]))]
    png(f"palette-{bits}.png", values(6, 9, 1, bits) % count, bits, 3, entries, interlaced=bits == 2)
png("palette-short.png", values(6, 9, 1, 8), 8, 3, [(b"PLTE", colours[:20].tobytes())])
for bits in (8, 16):
    png(f"rgb-{bits}.png", values(6, 5, 3, bits), bits, 2, interlaced=bits == 16)
    png(f"rgba-{bits}.png", values(6, 5, 4, bits), bits, 6)
    png(f"grey-alpha-{bits}.png", values(6, 5, 2, bits), bits, 4, interlaced=bits == 8)
png("rgb-transparent.png", values(6, 5, 3, 8), 8, 2, [(b"tRNS", bytes([0, 1, 0, 1, 0, 1]))])
png("grey-gamma.png", values(6, 5, 1, 8), 8, 0, [(b"gAMA", struct.pack(">I", 100000)), (b"sRGB", b"\0")])
png("exif.png", values(4, 7, 3, 8), 8, 2, [(b"eXIf", exif(6)[6:])])
png("exif-behind.png", values(4, 7, 3, 8), 8, 2, after=[(b"eXIf", exif(5, big=True)[6:])])
raw = exif(3).hex()
profile = "\nexif\n%8d\n%s\n%s\n" % (len(raw) // 2, raw[:72], raw[72:])
png("exif-raw.png", values(4, 7, 3, 8), 8, 2, [(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile.encode()))])
png("xmp.png", values(4, 7, 3, 8), 8, 2, [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(7))])

# --- WebP
saved("lossy.webp", picture, format="WEBP", quality=70)
saved("lossless.webp", picture, format="WEBP", lossless=True)
saved("alpha.webp", Image.fromarray(pattern(10, 9, 4), "RGBA"), format="WEBP", quality=70)
saved("alpha-lossless.webp", Image.fromarray(pattern(10, 9, 4), "RGBA"), format="WEBP", lossless=True, exact=True)
saved("exif.webp", small, format="WEBP", quality=80, exif=exif(8))
saved("xmp.webp", small, format="WEBP", quality=80, xmp=xmp(6))
saved("animated.webp", small, format="WEBP", save_all=True, append_images=[small.transpose(Image.Transpose.ROTATE_180)], quality=70)


# --- BMP
def bmp(name, width, height, bits, data, palette=b"", compression=0, header=40, masks=b"", colours=0, up=True):
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, height if up else -height, 1, bits, compression, len(data), 2835, 2835, colours, 0)
        info += masks + b"\0" * (header - 40 - len(masks) if header > 40 else 0)
    offset = 14 + len(info) + len(palette)
    files[name] = b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + palette + data


def padded(row):
    return row + b"\0" * (-len(row) % 4)


def indices(height, width, bits):
    out = b""
    for row in values(height, width, 1, bits):
        text = "".join(format(int(v), f"0{bits}b") for v in row.reshape(-1))
        text += "0" * (-len(text) % 8)
        out += padded(bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8)))
    return out


def quads(count):
    return b"".join(bytes(c) + b"\0" for c in colours[:count])


def words(height, width, size, shift=0):
    rng = pattern(height, width * size, 1)[..., 0]
    return b"".join(padded(row.tobytes()) for row in rng)


for bits in (1, 4, 8):
    bmp(f"palette-{bits}.bmp", 7, 5, bits, indices(5, 7, bits), quads(2 ** bits))
bmp("palette-few.bmp", 7, 5, 8, indices(5, 7, 4).ljust(40, b"\1"), quads(16), colours=16)
bmp("os2.bmp", 7, 5, 4, indices(5, 7, 4), colours[:16].tobytes(), header=12)
bmp("grey.bmp", 7, 5, 8, indices(5, 7, 8), b"".join(bytes([i, i, i, 0]) for i in range(256)))
bmp("555.bmp", 7, 5, 16, words(5, 7, 2))
bmp("565.bmp", 7, 5, 16, words(5, 7, 2), compression=3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
bmp("24.bmp", 7, 5, 24, words(5, 7, 3))
bmp("24-down.bmp", 7, 5, 24, words(5, 7, 3), up=False)
bmp("32.bmp", 7, 5, 32, words(5, 7, 4))
bmp("32-fields.bmp", 7, 5, 32, words(5, 7, 4), compression=3, header=108,
    masks=struct.pack("<IIII", 0xFF, 0xFF00, 0xFF0000, 0xFF000000))
bmp("rle8.bmp", 7, 3, 8, bytes([7, 9, 0, 0, 2, 5, 0, 5, 1, 2, 3, 4, 6, 0, 0, 0, 0, 2, 3, 0, 4, 8, 0, 0, 0, 1]), quads(256), compression=1)
bmp("rle4.bmp", 7, 3, 4, bytes([7, 0x12, 0, 0, 2, 0x55, 0, 5, 0x12, 0x34, 0x60, 0, 0, 0, 7, 0x9A, 0, 0, 0, 1]), quads(16), compression=2)

# --- GIF
plain = Image.fromarray(values(12, 13, 1, 6)[..., 0].astype(np.uint8), "P")
plain.putpalette(colours[:64].tobytes())
saved("plain.gif", plain, format="GIF", interlace=0)
saved("interlaced.gif", plain, format="GIF", interlace=1)
saved("transparent.gif", plain, format="GIF", transparency=3)
saved("two-colours.gif", picture.convert("1"), format="GIF")
saved("grey.gif", picture.convert("L"), format="GIF")
saved("animated.gif", plain, format="GIF", save_all=True, append_images=[plain.transpose(Image.Transpose.ROTATE_180)], loop=0)
long = Image.fromarray(np.random.RandomState(1).randint(0, 16, (70, 110)).astype(np.uint8), "P")  # more codes than the table holds
long.putpalette(colours[:16].tobytes())
saved("long.gif", long, format="GIF")
for name, source in (("offset", "plain"), ("offset-transparent", "transparent")):  # the picture is a part of a larger screen
    data = bytearray(files[f"{source}.gif"])
    data[6:10] = struct.pack("<HH", 18, 16)
    at = data.index(b"\x2c\0\0\0\0" + struct.pack("<HH", 13, 12))
    data[at + 1:at + 5] = struct.pack("<HH", 3, 2)
    files[f"{name}.gif"] = bytes(data)
data = bytearray(files["plain.gif"])
data[6:10] = struct.pack("<HH", 5, 6)  # the picture is larger than the screen
files["larger.gif"] = bytes(data)

folder = sys.argv[1]
expected = {}
for name, content in sorted(files.items()):
    with open(f"{folder}/{name}", "wb") as out:
        out.write(content)
    with Image.open(io.BytesIO(content)) as image:
        expected[name] = np.array(ImageOps.exif_transpose(image).convert("RGB"))
save_file(expected, f"{folder}/expected.safetensors")
print(len(files), "files,", sum(map(len, files.values())), "bytes")
