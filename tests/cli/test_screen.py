from s2r_jax.cli import screen


def test_units_in_brackets_are_shown_and_not_taken_for_styles(capsys):
    screen.say("position [rad, m]: 0.1 [bold]")
    screen.table("errors [rad]", ("signal [kind]", "mae [m]"), [["joint [rad, m]", 0.25]])
    shown = capsys.readouterr().err
    for text in ("position [rad, m]: 0.1 [bold]", "errors [rad]", "signal [kind]", "mae [m]",
                 "joint [rad, m]"):  # fmt: skip
        assert text in shown
