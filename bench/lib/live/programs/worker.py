"""Waits for jobs in Redis and sends a mail for each."""

import time

from program import Failure, Redis, call

while True:
    try:
        redis = Redis()
        while True:
            if redis.run("BRPOP", "jobs", 5) is not None:
                call("mailer", "POST", "/send")
    except (OSError, Failure):
        time.sleep(0.2)
