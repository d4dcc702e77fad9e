"""`python -m gradscore.cli`, for where the installed script is not on the path."""

import sys

from gradscore.cli.main import main

sys.exit(main())
