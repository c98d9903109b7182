"""Decoding: images, video, sound, compression, serialised objects."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("decoders")(
    Library(
        "Pillow 8 to 12, torchvision 0.14 to 0.29, CPython 3.8 to 3.14",
        (
            at("PIL/ImageOps.py", "transform"),
            at("PIL/ImageEnhance.py", "transform"),
            at("PIL/ImageFilter.py", "transform"),
            at(
                "PIL/Image.py",
                "transform",
                "resize",
                "crop",
                "rotate",
                "transpose",
                "filter",
                "transform",
                "paste",
                "thumbnail",
                "reduce",
            ),
            at("PIL/", "decoding"),
            at("torchvision/io/", "decoding"),
            at("torchcodec/", "decoding"),
            at("torchaudio/", "decoding"),
            at("turbojpeg/", "decoding"),
            at("decord/", "decoding"),
            at("av/", "decoding"),
            at("soundfile.py", "decoding"),
            at("librosa/", "decoding"),
            at("imageio/", "decoding"),
            at("skimage/io/", "decoding"),
            at("zstandard/", "decoding"),
            at("lz4/", "decoding"),
            at("blosc/", "decoding"),
            at("msgpack/", "decoding"),
            at("std:json/decoder.py", "decoding"),
            at("std:json/__init__.py", "decoding", "load", "loads"),
            at("std:pickle.py", "decoding"),
            at("std:lzma.py", "decoding"),
            at("std:bz2.py", "decoding"),
        ),
    )
)
