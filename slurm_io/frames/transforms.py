"""Transforms of samples: images, tokens, tables."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("transforms")(
    Library(
        "torchvision 0.14 to 0.29, transformers 4 and 5",
        (
            at("torchvision/transforms/", "transform"),
            at("albumentations/", "transform"),
            at("kornia/", "transform"),
            at("imgaug/", "transform"),
            at("monai/transforms/", "transform"),
            at("cv2/", "transform"),
            at("skimage/", "transform"),
            at("scipy/", "transform"),
            at("tokenizers/", "transform"),
            at("sentencepiece/", "transform"),
            at("tiktoken/", "transform"),
            at("transformers/tokenization_utils.py", "transform"),
            at("transformers/tokenization_utils_base.py", "transform"),
            at("transformers/tokenization_utils_fast.py", "transform"),
            at("transformers/tokenization_utils_tokenizers.py", "transform"),
            at("transformers/feature_extraction_utils.py", "transform"),
            at("transformers/image_processing_utils.py", "transform"),
            at("transformers/data/data_collator.py", "collate"),
        ),
    )
)
