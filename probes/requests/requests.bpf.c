/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that processes answer and make, counted in the kernel by kind: docs/traffic.md. One object, because all hooks share the table of
 * connections. Programs are chosen by the loader: the socket_* ones, or on kernels without their tracepoints the syscall_* ones; sweep_requests
 * always; those of tls.h where plaintext is read.
 */
#include "requests/hooks-socket.h"
#include "requests/hooks-syscall.h"
#include "requests/sweep.h"

#if defined(__TARGET_ARCH_x86)
/* Uprobes of TLS libraries: they find the socket of an object, and call on_data() with plaintext. Registers and places are read for x86-64 only. */
#include "tls/openssl-copy.h"
#include "tls/uprobes.h"
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
