"""Digits to digits on photographs: what does aligning gain over training on the source alone?

    python benchmarks/adapt_digits.py [--seeds 3] [--steps 1200]

Source: digits 5000-9999 with labels. Target: MNIST-M style images 0-2499 without labels; images
2500-4999 are locked and only scored. The target images show digits 0-4999, so no digit is on both
sides. The data is `mnist/` in `$S2R_DATA` or `../shared/data`. The oracle trains on the labels of
the target images: what the network and the budget could reach at all.
"""

import argparse
import dataclasses
import sys
import time
from typing import Literal, NamedTuple

import numpy as np

from s2r_jax.adapt import run
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.digits import Digits, data_folder, read_digits
from s2r_jax.adapt.evidence import Evidence, score_classes

BASE = AdaptConfig(
    outputs=10,
    image_shape=(28, 28, 3),
    features=128,
    channels=(32, 64),
    steps=1200,
    learning_rate=3e-3,
    report_every=100,
)
"""A network that a CPU core trains in half a minute. Rate, depth and weights were chosen on labels
of the target images 0-2499 with seed 0; the locked images took no part in it."""
WEIGHTS: tuple[tuple[Literal["dann", "coral"], float], ...] = (("dann", 1.0), ("coral", 0.3))


class Row(NamedTuple):
    """One trained policy."""

    name: str
    balanced: float
    """Balanced accuracy on the locked target images."""
    evidence: Evidence
    seconds: float
    """Training and evidence; the first row includes compiling."""


def measure(name: str, digits: Digits, config: AdaptConfig) -> Row:
    """Train once and score on the locked images."""
    start = time.perf_counter()
    trained = run.train(digits.source, digits.source_label, digits.target, config)
    seconds = time.perf_counter() - start
    output = run.predict(trained.policy, digits.locked, config)
    balanced = score_classes(output, digits.locked_label).balanced_accuracy
    return Row(name, balanced, trained.evidence, seconds)


def table(rows: list[Row]) -> str:
    """Return one line per name: mean and standard deviation over seeds, and collapsed runs."""
    lines = [
        f"{'':12} {'locked target':>15} {'worst':>6} {'source':>7} {'A-dist.':>8} "
        f"{'collapsed':>10} {'s/run':>6}"
    ]
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        balanced = np.array([row.balanced for row in own])
        kept = np.mean([row.evidence.source_score for row in own])
        apart = np.mean([row.evidence.a_distance for row in own])
        collapsed = sum(row.evidence.collapsed for row in own)
        seconds = np.median([row.seconds for row in own])
        lines.append(
            f"{name:12} {balanced.mean():7.3f} ± {balanced.std():5.3f} {balanced.min():6.3f} "
            f"{kept:7.3f} {apart:8.2f} {collapsed:7d}/{len(own)} {seconds:7.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, one progress line per trained policy before it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=BASE.steps)
    arguments = parser.parse_args()
    digits = read_digits(data_folder())
    labelled = digits._replace(source=digits.target, source_label=digits.target_label)
    rows = []
    for seed in range(arguments.seeds):
        config = dataclasses.replace(BASE, seed=seed, steps=arguments.steps)
        source_only = dataclasses.replace(config, weight_max=0.0)
        trials = [
            ("source only", digits, source_only),
            *(
                (f"{method} {weight:g}", digits, _weighted(config, method, weight))
                for method, weight in WEIGHTS
            ),
            ("oracle", labelled, source_only),
        ]
        for name, domains, settings in trials:
            rows.append(measure(name, domains, settings))
            print(f"seed {seed} {name}: {rows[-1].balanced:.3f}", file=sys.stderr, flush=True)
    print(table(rows))


def _weighted(config: AdaptConfig, method: Literal["dann", "coral"], weight: float) -> AdaptConfig:
    return dataclasses.replace(config, method=method, weight_max=weight)


if __name__ == "__main__":
    main()
