/*
 * odd-calls WAY COUNT: a client and a server in one thread, whose responses (200 and 500 alternately, of equal length) are sent or read by system calls
  * that are rarely used for this. Prints the server's port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BODY_BYTES 300
#define PIECES 40
/* IORING_OP_SEND_ZC, which older headers do not have. */
#define SEND_ZC 47
/* Exit code: the kernel lacks the system call. */
#define NOT_HERE 77

static const char *way;
static int count;

static int is(const char *name)
{
	return !strcmp(way, name);
}

static long checked(long result, const char *what)
{
	if (result >= 0)
		return result;
	perror(what);
	exit(1);
}

static ssize_t in_pieces(int fd, char *bytes, size_t length, ssize_t (*call)(int, const struct iovec *, int))
{
	struct iovec vectors[PIECES];

	for (int index = 0; index < PIECES; index++)
		vectors[index] = (struct iovec){ bytes + index, index == PIECES - 1 ? length - index : 1 };
	return call(fd, vectors, PIECES);
}

/* Two messages, whose sizes still have the values of the previous call. */
static void send_messages(int fd, char *bytes, size_t length)
{
	static struct mmsghdr messages[2];
	struct iovec vectors[2] = { { bytes, 20 }, { bytes + 20, length - 20 } };

	for (int index = 0; index < 2; index++)
		messages[index].msg_hdr = (struct msghdr){ .msg_iov = &vectors[index], .msg_iovlen = 1 };
	checked(sendmmsg(fd, messages, 2, 0), "sendmmsg");
}

static void send_file(int fd, const char *bytes, size_t length)
{
	int file = checked(memfd_create("answer", 0), "memfd_create");
	off_t offset = 0;

	checked(write(file, bytes, length), "write");
	checked(sendfile(fd, file, &offset, length), "sendfile");
	close(file);
}

static struct {
	int fd;
	unsigned *tail, *array, *seen, *done;
	struct io_uring_sqe *entries;
} ring;

static void open_ring(void)
{
	struct io_uring_params parameters = { 0 };
	char *memory;

	ring.fd = syscall(SYS_io_uring_setup, 8, &parameters);
	if (ring.fd < 0 || !(parameters.features & IORING_FEAT_SINGLE_MMAP))
		exit(NOT_HERE);
	memory = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.entries = mmap(0, 8 * sizeof(*ring.entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (memory == MAP_FAILED || ring.entries == MAP_FAILED)
		exit(NOT_HERE);
	ring.tail = (unsigned *)(memory + parameters.sq_off.tail);
	ring.array = (unsigned *)(memory + parameters.sq_off.array);
	ring.seen = (unsigned *)(memory + parameters.cq_off.head);
	ring.done = (unsigned *)(memory + parameters.cq_off.tail);
}

/* Sent without a copy, asynchronously by the kernel, when the write to an event returns. */
static void send_after_write(int fd, char *bytes, size_t length)
{
	int event = checked(eventfd(0, 0), "eventfd");
	uint64_t one = 1;
	unsigned tail;

	if (!ring.entries)
		open_ring();
	tail = *ring.tail;
	memset(ring.entries, 0, 2 * sizeof(*ring.entries));
	ring.entries[0] = (struct io_uring_sqe){ .opcode = IORING_OP_POLL_ADD, .fd = event, .poll32_events = POLLIN, .flags = IOSQE_IO_LINK };
	ring.entries[1] = (struct io_uring_sqe){ .opcode = SEND_ZC, .fd = fd, .addr = (uintptr_t)bytes, .len = length };
	ring.array[tail & 7] = 0;
	ring.array[(tail + 1) & 7] = 1;
	__atomic_store_n(ring.tail, tail + 2, __ATOMIC_RELEASE);
	checked(syscall(SYS_io_uring_enter, ring.fd, 2, 0, 0, 0, 0), "io_uring_enter");
	checked(write(event, &one, sizeof(one)), "write");
	/* Completions: the poll, the send, and the release of its memory. */
	while (__atomic_load_n(ring.done, __ATOMIC_ACQUIRE) - *ring.seen < 3)
		checked(syscall(SYS_io_uring_enter, ring.fd, 0, 3, IORING_ENTER_GETEVENTS, 0, 0), "io_uring_enter");
	*ring.seen += 3;
	close(event);
}

static void answer(int fd, int status)
{
	static char bytes[BODY_BYTES + 128];
	int length = sprintf(bytes, "HTTP/1.1 %d Said so\r\nContent-Length: %d\r\n\r\n", status, BODY_BYTES);

	memset(bytes + length, 'x', BODY_BYTES);
	length += BODY_BYTES;
	if (is("pieces"))
		checked(in_pieces(fd, bytes, length, writev), "writev");
	else if (is("messages"))
		send_messages(fd, bytes, length);
	else if (is("file"))
		send_file(fd, bytes, length);
	else if (is("unseen"))
		checked(pwritev2(fd, &(struct iovec){ bytes, length }, 1, -1, 0), "pwritev2");
	else if (is("ring") && status == 500)
		send_after_write(fd, bytes, length);
	else
		checked(send(fd, bytes, length, 0), "send");
}

/* One message of `length` bytes. */
static void receive(int fd, size_t length)
{
	static char bytes[BODY_BYTES + 128];
	size_t got = 0;

	while (got < length) {
		if (is("pieces"))
			got += checked(in_pieces(fd, bytes, length - got + PIECES, readv), "readv");
		else if (is("unseen"))
			got += checked(preadv2(fd, &(struct iovec){ bytes, length - got }, 1, -1, 0), "preadv2");
		else if (is("discard") && got)
			got += checked(recv(fd, bytes, length - got, MSG_TRUNC), "recv");
		else
			got += checked(recv(fd, bytes, is("discard") && length > BODY_BYTES ? length - BODY_BYTES : length - got, 0), "recv");
	}
}

static void exchange(int client, int server)
{
	static const char request[] = "GET /asked HTTP/1.1\r\nHost: odd-calls.test\r\n\r\n";
	static const char head[] = "HTTP/1.1 200 Said so\r\nContent-Length: 300\r\n\r\n";

	for (int index = 0; index < count; index++) {
		if (is("unseen"))
			checked(pwritev2(client, &(struct iovec){ (char *)request, sizeof(request) - 1 }, 1, -1, 0), "pwritev2");
		else
			checked(send(client, request, sizeof(request) - 1, 0), "send");
		receive(server, sizeof(request) - 1);
		answer(server, index % 2 ? 500 : 200);
		receive(client, sizeof(head) - 1 + BODY_BYTES);
	}
}

int main(int arguments, char **values)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int protocol, listener, client, server;

	if (arguments != 3)
		return 2;
	way = values[1];
	count = atoi(values[2]);
	protocol = is("mptcp") ? IPPROTO_MPTCP : 0;
	listener = socket(AF_INET, SOCK_STREAM, protocol);
	if (listener < 0)
		return NOT_HERE;
	checked(bind(listener, (void *)&address, size), "bind");
	checked(listen(listener, 8), "listen");
	checked(getsockname(listener, (void *)&address, &size), "getsockname");
	printf("%d\n", ntohs(address.sin_port));
	client = socket(AF_INET, SOCK_STREAM, protocol);
	checked(connect(client, (void *)&address, size), "connect");
	server = checked(accept(listener, 0, 0), "accept");
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	exchange(client, server);
	close(client);
	close(server);
	return 0;
}
