"""`python -m rlvr_platform`: the same as the console script `rlvr`."""

import sys

from rlvr_platform.cli.main import main

sys.exit(main())
