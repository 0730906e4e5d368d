/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that processes answer and make, counted in the kernel by kind: docs/traffic.md. One object, because all hooks share the table of
 * connections. Programs are chosen by the loader: the socket_* ones, or on kernels without their tracepoints the syscall_* ones; sweep_requests
 * always; those of tls.h where plaintext is read.
 */
#include "hooks-socket.h"
#include "hooks-syscall.h"
#include "sweep.h"

#if __has_include("tls.h")
/* Uprobes of TLS libraries: they find the socket of an object, and call on_data() with plaintext. */
#include "tls.h"
#include "tls-copy.h"
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
