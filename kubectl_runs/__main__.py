"""`python -m kubectl_runs` is the same as the console script."""

from kubectl_runs.main import main

if __name__ == "__main__":
    main()
