"""Run a command behind sandlock: run_sandlock.py PLACE COMMAND…. Everything may be read, and PLACE written."""

import sys

import sandlock  # type: ignore[import-not-found]

box = sandlock.Sandbox(
    fs_readable=["/"],
    fs_writable=[sys.argv[1], "/tmp", "/dev"],
    net_allow=["127.0.0.1:*"],
    net_allow_bind=["0-65535"],
)
result = box.run(sys.argv[2:])
for stream, data in ((sys.stdout, result.stdout), (sys.stderr, result.stderr)):
    stream.write(data.decode(errors="replace") if isinstance(data, bytes) else data or "")
sys.exit(result.exit_code)
