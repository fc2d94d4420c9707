"""Commands that must refuse what they are given."""

import pytest

from s2r_jax import cli


def fails(capsys, *arguments):
    """Run the command in this process; return its message."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert "Traceback" not in err
    return " ".join(err.split())
