"""The two digit domains share no digit, so no target label can leak through the source."""

import numpy as np
import pytest

from s2r_jax.adapt.digits import read_digits
from s2r_jax.errors import MissingFile


@pytest.fixture(scope="module")
def digits(data_folder):
    return read_digits(data_folder)


def test_source_target_and_locked_digits_are_disjoint(digits, data_folder):
    with np.load(data_folder / "mnist" / "mnist10k.npz") as file:
        drawn, label = file["image"], file["label"]
    np.testing.assert_array_equal(digits.source[..., 1], drawn[5000:])
    np.testing.assert_array_equal(digits.target_label, label[:2500])
    np.testing.assert_array_equal(digits.locked_label, label[2500:5000])
    unique = {image.tobytes() for image in drawn[:5000]}
    assert not unique & {image.tobytes() for image in digits.source[..., 0]}


def test_target_images_are_photographs_minus_the_digits_of_their_row(digits, data_folder):
    # |photograph - digit|: the photograph's brightness shows on the ground, its negative on the
    # strokes; both agree when image and digit belong together.
    with np.load(data_folder / "mnist" / "mnist10k.npz") as file:
        drawn = file["image"][:2500]
    shown = digits.target.mean(axis=-1) / 255

    def agreement(digit):
        stroke, ground = digit == 255, digit == 0
        inked = stroke.sum(axis=(1, 2)) > 10
        on_stroke = np.nanmean(np.where(stroke, 1 - shown, np.nan)[inked], axis=(1, 2))
        on_ground = np.nanmean(np.where(ground, shown, np.nan)[inked], axis=(1, 2))
        return np.corrcoef(on_stroke, on_ground)[0, 1]

    assert agreement(drawn) > 0.5
    assert agreement(np.roll(drawn, 1, axis=0)) < agreement(drawn) - 0.3


def test_missing_data_names_the_file_and_the_variable(tmp_path):
    with pytest.raises(MissingFile, match=r"mnist10k.npz: no such file; set S2R_DATA"):
        read_digits(tmp_path)
