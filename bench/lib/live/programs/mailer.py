"""Accepts mails and discards them."""

import time

from program import serve


def send():
    time.sleep(0.005)
    return {}


serve([("POST", "/send", send)])
