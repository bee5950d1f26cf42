"""`python -m spark_index`: see driver/."""

import sys

from spark_index.driver.command import main

if __name__ == "__main__":
    sys.exit(main())
