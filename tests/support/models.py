"""Model files that mislead the choice of algorithms."""


def poisoned(operation, ranks, hosts, order):
    """Returns a model file that misjudges these algorithms: the better an algorithm, the higher its cost.
    `order` lists the best first."""
    where = str(ranks) if hosts == 1 else f"{ranks}@{hosts}"
    factors = {}
    for place, algorithm in enumerate(reversed(order)):
        factors.setdefault(algorithm.split(":")[0], 1e-3 if place == 0 else 1 + place / 4)
    return "".join(f"correction {operation} {name} {where} {level} {factor:e}\n" for name, factor in factors.items() for level in (0, 40))
