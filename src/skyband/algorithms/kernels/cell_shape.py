"""How many cells an index of some axes has along each of them."""


def shape_for(axes: int, total: float) -> list[int]:
    """Return the cells along each axis, as equal as possible, with the greatest product that is at most `total`."""
    each = max(1, int(total ** (1 / axes)))
    while (each + 1) ** axes <= total:
        each += 1
    cells = [each] * axes
    product = each**axes
    for axis in range(axes):
        if product // each * (each + 1) > total:
            break
        cells[axis] += 1
        product = product // each * (each + 1)
    return cells
