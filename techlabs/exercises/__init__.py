"""The exercises of every lab, one module a lab, named by the lab's permanent id.

A course in a folder of its own, $TECHLABS_ROOT, keeps those of its labs in exercises/ there.
"""

import os

if os.environ.get("TECHLABS_ROOT"):
    __path__.append(os.path.join(os.environ["TECHLABS_ROOT"], "exercises"))  # noqa: PTH118
