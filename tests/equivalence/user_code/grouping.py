"""Says of two things whether they are one."""


def same(one: object, other: object) -> bool:
    return one is other
