"""Orders in Postgres, with a pool of connections; a job in Redis for each new one."""

import os
import queue
import random
import threading

import program
from program import Failure, Postgres, Redis, serve

POOL = 6
pool = queue.Queue()
for _ in range(POOL):
    pool.put(None)
jobs = threading.local()
taken = []


def run(*statements):
    leak()
    try:
        connection = pool.get(timeout=1)
    except queue.Empty:
        raise Failure(503, "no connection left in the pool") from None
    try:
        connection = connection or Postgres()
        return [connection.run(sql) for sql in statements]
    except OSError as error:
        connection = None
        raise Failure(503, str(error)) from error
    finally:
        pool.put(connection)


def leak():
    """Connections that a fault takes from the pool and never returns."""
    wanted = program.behaviour.get("leakConnections", 0)
    while len(taken) < wanted and not pool.empty():
        taken.append(pool.get())
    while len(taken) > wanted:
        pool.put(taken.pop())


journal = open(os.environ["JOURNAL"] + "/journal", "a") if os.environ.get("JOURNAL") else None
journal_lock = threading.Lock()


def note(text):
    """Writes and syncs one line at a time; other writers wait."""
    if journal is None:
        return
    with journal_lock:
        journal.write(text + "\n")
        journal.flush()
        os.fsync(journal.fileno())


def enqueue(job):
    """A failed queue loses the mail, not the order."""
    try:
        if not hasattr(jobs, "redis"):
            jobs.redis = Redis()
        jobs.redis.run("LPUSH", "jobs", job)
    except (OSError, Failure):
        del jobs.redis


def create():
    user = random.randrange(2000)
    run(f"INSERT INTO orders (user_id, total) VALUES ({user}, {random.randrange(100)})", f"UPDATE stock SET units = units - 1 WHERE item = {random.randrange(20)}")
    note(f"order of {user}")
    enqueue(user)
    return {"user": user}


def show(order):
    return {"orders": run(f"SELECT sum(total) FROM orders WHERE user_id = {int(order)}")[0]}


def report():
    return {"rows": run("SELECT item, units FROM stock ORDER BY units")[0]}


serve([("POST", "/orders", create), ("GET", "/orders/", show), ("GET", "/reports/daily", report)])
