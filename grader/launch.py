"""The first program in a box: it copies the submission, lowers the limits for good, and becomes the kernel.

Usage: launch.py LIMITS COMMAND... with the limits as JSON.
"""

import json
import os
import resource
import shutil
import sys


def main(limits: str, *command: str) -> None:
    """Copy, limit, and run the command in place of this process."""
    allowed = json.loads(limits)
    shutil.copytree("/submission", "/lab", dirs_exist_ok=True)
    os.chdir("/lab")
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: allowed["seconds"],
        resource.RLIMIT_FSIZE: allowed["file_mb"] << 20,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_NPROC: allowed["processes"],
    }
    for which, value in bounds.items():
        resource.setrlimit(which, (value, value))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
