"""What a key and a folder may be, so that none ever leads out of the fleet root."""


def check_key(key: str) -> str:
    """Return ``key`` unchanged, or raise ``ValueError``: keys are made by this program, never by training."""
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise ValueError(f"{key[:80]!r} is no key: its parts must be names, separated by single slashes")
    return key


def check_folder(prefix: str) -> str:
    """Return ``prefix`` unchanged, or raise ``ValueError``: a folder ends in a slash, and "" is the root."""
    if prefix:
        if not prefix.endswith("/"):
            raise ValueError(f"{prefix[:80]!r} is no folder: it must end in a slash")
        check_key(prefix[:-1])
    return prefix
