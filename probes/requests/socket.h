/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernel structures around a socket, as far as they are read, and the arguments of system calls by architecture. Part of requests.bpf.c. */
#ifndef CORAL_REQUESTS_SOCKET_H
#define CORAL_REQUESTS_SOCKET_H

#include "core/scope.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_MPTCP 262
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define MSG_PEEK 2
/* TCP: received bytes are discarded, and nothing is written to the buffer. */
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u8 skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	struct socket *sk_socket;
};

struct tcp_sock {
	/* CLOCK_MONOTONIC when TCP last received, delivered or sent something, in nanoseconds. */
	u64 tcp_clock_cache;
	/*
	 * The same clock in microseconds: when the bytes that were last acknowledged were sent; with nothing in flight, when the last bytes
	 * were sent.
	 */
	u64 first_tx_mstamp;
	/* Sequence numbers: next byte to receive, next byte to deliver to the process. */
	u32 rcv_nxt;
	u32 copied_seq;
	/* rcv_nxt at the last acknowledgement that was sent. */
	u32 rcv_wup;
	/* Sequence numbers: next byte from the process, first byte not acknowledged. */
	u32 write_seq;
	u32 snd_una;
};

/* Bytes of a send that are still to be copied. */
struct iov_iter {
	u64 count;
};

struct msghdr {
	struct iov_iter msg_iter;
};

struct socket {
	u64 flags;
	struct sock *sk;
};

struct inode {
	u16 i_mode;
};

struct file {
	void *private_data;
	struct inode *f_inode;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* CO-RE flavour of task_struct with the field that leads to open files. */
struct task_struct___files {
	struct files_struct *files;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
};
#endif

#pragma clang attribute pop
#pragma clang diagnostic pop

/* Structures that user space passes; the ABI fixes their layout. */
struct user_iovec {
	u64 base;
	u64 length;
};

struct user_message {
	u64 name;
	u32 name_length;
	u32 reserved;
	u64 vectors;
	u64 vector_count;
	u64 control;
	u64 control_length;
	u32 flags;
	u32 reserved2;
	/* msg_len of struct mmsghdr. */
	u32 sent;
	u32 reserved3;
};

/*
 * SYSCALL_IS_RUNNING: the call has no result yet. io_uring sends and receives for a process after any of its system calls, and in worker
 * threads that start with a copy of some registers; the registers then describe another call.
 */
#define ENOSYS 38
/* SYSCALL_IS_COMPAT: a call of a 32-bit process, where numbers have other meanings. */
#if defined(__TARGET_ARCH_x86)
#define SYSCALL_NUMBER(registers) ((u32)(registers)->orig_ax)
#define SYSCALL_IS_RUNNING(registers) ((s32)(registers)->ax == -ENOSYS)
#define SYSCALL_IS_COMPAT(registers) ((registers)->cs == 0x23)
#define SYSCALL_FD(registers) ((u32)(registers)->di)
#define SYSCALL_BUFFER(registers) ((registers)->si)
#define SYSCALL_COUNT(registers) ((registers)->dx)
#define SYSCALL_FLAGS(registers) ((u32)(registers)->r10)
#define SYSCALL_ADDRESS(registers) ((registers)->r8)
#define NR_READ 0
#define NR_WRITE 1
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SENDFILE 40
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#define NR_SPLICE 275
#define NR_RECVMMSG 299
#define NR_SENDMMSG 307
#define NR_IO_URING_ENTER 426
#elif defined(__TARGET_ARCH_arm64)
#define SYSCALL_NUMBER(registers) ((u32)(registers)->syscallno)
#define SYSCALL_IS_RUNNING(registers) ((registers)->regs[0] == (registers)->orig_x0)
#define SYSCALL_IS_COMPAT(registers) ((registers)->pstate & 0x10)
#define SYSCALL_FD(registers) ((u32)(registers)->orig_x0)
#define SYSCALL_BUFFER(registers) ((registers)->regs[1])
#define SYSCALL_COUNT(registers) ((registers)->regs[2])
#define SYSCALL_FLAGS(registers) ((u32)(registers)->regs[3])
#define SYSCALL_ADDRESS(registers) ((registers)->regs[4])
#define NR_READ 63
#define NR_WRITE 64
#define NR_READV 65
#define NR_WRITEV 66
#define NR_SENDFILE 71
#define NR_SPLICE 76
#define NR_SENDTO 206
#define NR_RECVFROM 207
#define NR_SENDMSG 211
#define NR_RECVMSG 212
#define NR_RECVMMSG 243
#define NR_SENDMMSG 269
#define NR_IO_URING_ENTER 426
#endif

/*
 * When the bytes at hand arrived, were delivered or were sent: TCP reads the clock at each of these, so reading it again (51 ns) is not
 * needed. Only for TCP sockets that a hook was passed.
 */
static always_inline u64 tcp_time(struct sock *sk)
{
	return kernel_cast(struct tcp_sock, sk)->tcp_clock_cache;
}

/*
 * When a read ends. TCP reads the clock when it delivers bytes. If those came in several segments, it then acknowledges them, and on
 * loopback the peer handles the acknowledgement within the same call: 4 to 5 us.
 */
static always_inline u64 tcp_read_time(struct sock *sk)
{
	struct tcp_sock *tcp = kernel_cast(struct tcp_sock, sk);

	return tcp->rcv_wup == tcp->rcv_nxt ? bpf_ktime_get_ns() : tcp->tcp_clock_cache;
}

/* Offset of the saved registers from the start of a kernel stack, the same for all threads; 0: not known yet. */
u32 registers_at = 0;

/* Same result as bpf_task_pt_regs(), which is called only once. */
static always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	void *stack = task->stack;

	if (!registers_at)
		registers_at = low_half(bpf_task_pt_regs(task)) - low_half((u64)stack);
	return kernel_cast(struct pt_regs, stack + registers_at);
}

#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* The socket of a descriptor of the current process; 0: it is not a socket. Six reads: only for hooks that are not passed the socket. */
subprogram u64 socket_of_fd(u32 fd)
{
	struct task_struct___files *task = (void *)bpf_get_current_task_btf();
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file **descriptors = 0, *file = 0;
	struct inode *inode = 0;
	struct socket *socket = 0;
	struct sock *sk = 0;
	u32 descriptor_count = 0;
	u16 mode = 0;

	core_read(&files, &task->files);
	core_read(&table, &files->fdt);
	core_read(&descriptor_count, &table->max_fds);
	if (fd >= descriptor_count)
		return 0;
	core_read(&descriptors, &table->fd);
	bpf_probe_read_kernel(&file, sizeof(file), descriptors + fd);
	if (!file)
		return 0;
	core_read(&inode, &file->f_inode);
	core_read(&mode, &inode->i_mode);
	if ((mode & S_IFMT) != S_IFSOCK)
		return 0;
	core_read(&socket, &file->private_data);
	core_read(&sk, &socket->sk);
	return (u64)sk;
}

#endif
