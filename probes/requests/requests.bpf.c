/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that processes serve and send, counted in the kernel by kind; see docs/traffic.md. One object, because all hooks share the table
 * of connections.
 *
 * The loader chooses the programs: the socket_* ones or, on kernels without their tracepoints, the syscall_* ones; those of tls/ for
 * plaintext of TLS; sweep_requests always.
 */
#include "requests/hooks-socket.h"
#include "requests/hooks-syscall.h"
#include "requests/sweep.h"

#if defined(__TARGET_ARCH_x86)
/* Uprobes on TLS libraries. They know the registers of x86-64 only. */
#include "tls/openssl-copy.h"
#include "tls/uprobes.h"
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
