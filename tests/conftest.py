"""What every test shares."""

import os

from hypothesis import settings

from rlvr_platform.runtime import default_environment

os.environ.update(default_environment())

# Time limits belong to pytest: a shared machine is slow at times, which is no fault of the code.
settings.register_profile("rlvr", deadline=None, print_blob=True)
settings.load_profile("rlvr")
