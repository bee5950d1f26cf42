"""`python -m streams_node.cli`, for a tree that is not installed."""

import sys

from streams_node.cli import main

sys.exit(main())
