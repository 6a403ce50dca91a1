"""The sample's options: which digits are held out, and noise that is the same each time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.io import decode_jpeg

from pipeline.data.sample import main, noisy
from pipeline.data.shards import Index, read_index


def image(index: Index, sample: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    content = (index.folder / index.shards[index.shard[sample]]).read_bytes()
    start = int(index.offset[sample])
    jpeg = np.frombuffer(content[start : start + int(index.size[sample])], np.uint8)
    return decode_jpeg(torch.from_numpy(jpeg.copy()))[0].numpy()


def test_the_studys_sample_validates_on_every_image_that_does_not_train(tmp_path: Path, sample: Path) -> None:
    main([str(tmp_path), "--train-per-class", "251", "--noise", "40"])
    train, validation = read_index(tmp_path, "train"), read_index(tmp_path, "validation")
    assert (len(train), len(validation)) == (2510, 2490)
    assert [int((validation.label == one).sum()) for one in range(10)] == [249] * 10
    clean = read_index(sample, "train")
    assert (train.label == clean.first(2510).label).all()  # the same digits in the same order
    difference = np.concatenate([image(train, one) - image(clean, one).astype(float) for one in range(100)])
    strokes = np.concatenate([image(clean, one) for one in range(100)])
    inside = difference[(strokes > 100) & (strokes < 155)]  # not cut off at 0 and 255
    assert float(inside.std()) == pytest.approx(40, rel=0.1)
    assert float(inside.mean()) == pytest.approx(0, abs=5)


def test_noise_is_the_same_each_time_and_another_for_each_class() -> None:
    pixels = np.full((3, 4), 128.0)
    assert (noisy(pixels, 40.0, seed=1) == noisy(pixels, 40.0, seed=1)).all()
    assert (noisy(pixels, 40.0, seed=1) != noisy(pixels, 40.0, seed=2)).any()
    assert (noisy(pixels, 0.0, seed=1) == 128).all()
    assert noisy(np.array([[0.0, 255.0]] * 50), 500.0, seed=1).dtype == np.uint8


@pytest.mark.parametrize("words", [["--noise", "-1"], ["--noise", "nan"], ["--train-per-class", "500"]])
def test_what_makes_no_sample_is_refused(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "x"), *words])
    assert "--train-per-class is from 1 to 499, --noise from 0 to below 1000" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
