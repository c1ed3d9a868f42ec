"""`python -m pellucid.surface.cli`: the same as `pellucid`, for where the script is not on the path."""

import sys

from pellucid.surface.cli import main

sys.exit(main())
