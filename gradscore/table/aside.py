"""Write aside, then move: a file is whole or absent, on a local disk and on NFS.

The temporary file lies in the folder of the final one, because a rename is atomic only inside one
file system. No locks and no memory maps are used; NFS handles both badly.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradscore.errors import StorageError

TEMPORARY_SUFFIX = ".tmp"


@contextmanager
def written_aside(path: Path, *, what: str, safe: str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it becomes `path` when the block ends without an error.

    Args:
        path: the file that is to appear, whole or not at all; an older one stays until the move.
        what: what is being written, for the message ("scores of 512 rows").
        safe: what is kept if this fails, for the message ("1024 rows written before are safe").

    Raises:
        StorageError: the disk is full or the file cannot be written; the temporary file is removed.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    except OSError as error:
        raise storage_error(error, path, what=what, safe=safe) from error
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Wait until the file or folder is on the disk itself, so that a power cut cannot undo a rename."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_error(error: OSError, path: Path, *, what: str, safe: str) -> StorageError:
    """Return the error that tells what was being written, why it failed, what is safe and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        found = f"the disk or quota of {path.parent} is full"
        todo = "Free some space and run the same command again."
    else:
        found = error.strerror or str(error)
        todo = f"Check {path.parent} and run the same command again."
    return StorageError(f"Writing {what} to {path} failed: {found}. {safe} {todo}")
