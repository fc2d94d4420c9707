"""Files are the old ones or the new ones."""

import pytest

from s2r_jax import files


def test_file_takes_its_place_when_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with files.whole(path) as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_block_that_fails_leaves_the_old_file_and_nothing_beside(tmp_path, error):
    def interrupted():
        with files.whole(path) as beside:
            beside.write_text("half")
            raise error

    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
