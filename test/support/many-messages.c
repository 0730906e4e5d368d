/*
 * many-messages COUNT: a client and a server in one thread, which send and receive eight DNS messages per call, COUNT times with the same memory. Two
  * thirds of the client's calls receive fewer messages than they have buffers for. Prints the server's port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MESSAGES 8
#define ROOM 12

static char bytes[4][ROOM][128];
static struct iovec vectors[4][ROOM];
static struct mmsghdr messages[4][ROOM];
static struct sockaddr_in peers[4][ROOM];

static void checked(long result, long wanted, const char *what)
{
	if (result == wanted)
		return;
	fprintf(stderr, "%s: %ld\n", what, result);
	exit(1);
}

static void prepare(int way)
{
	for (int index = 0; index < ROOM; index++) {
		vectors[way][index] = (struct iovec){ bytes[way][index], sizeof(bytes[way][index]) };
		messages[way][index].msg_hdr = (struct msghdr){ .msg_iov = &vectors[way][index], .msg_iovlen = 1, .msg_name = &peers[way][index],
								.msg_namelen = sizeof(struct sockaddr_in) };
	}
}

/* A query for the names a.test, bb.test and so on, or its response. */
static void write_message(int way, int index, int number, int is_answer)
{
	char *at = bytes[way][index];
	unsigned char header[12] = { number, index, is_answer ? 0x81 : 1, is_answer ? 0x80 : 0, 0, 1 };

	memcpy(at, header, 12);
	at += 12;
	*at++ = index + 1;
	memset(at, 'a' + index, index + 1);
	at += index + 1;
	memcpy(at, "\4test\0\0\1\0\1", 10);
	vectors[way][index].iov_len = at + 10 - bytes[way][index];
}

static int open_socket(struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	checked(bind(fd, (void *)address, size), 0, "bind");
	checked(getsockname(fd, (void *)address, &size), 0, "getsockname");
	return fd;
}

int main(int arguments, char **values)
{
	struct sockaddr_in server_address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, client_address = server_address;
	int client = open_socket(&client_address), server = open_socket(&server_address);

	if (arguments != 2)
		return 2;
	printf("%d\n", ntohs(server_address.sin_port));
	for (int turn = 0; turn < atoi(values[1]); turn++) {
		int room = turn % 3 ? ROOM : MESSAGES;

		for (int way = 0; way < 4; way++)
			prepare(way);
		for (int index = 0; index < MESSAGES; index++) {
			write_message(0, index, turn, 0);
			write_message(2, index, turn, 1);
			peers[0][index] = server_address;
			peers[2][index] = client_address;
		}
		checked(sendmmsg(client, messages[0], MESSAGES, 0), MESSAGES, "queries sent");
		checked(recvmmsg(server, messages[1], ROOM, MSG_WAITFORONE, 0), MESSAGES, "queries received");
		checked(sendmmsg(server, messages[2], MESSAGES, 0), MESSAGES, "answers sent");
		checked(recvmmsg(client, messages[3], room, MSG_WAITFORONE, 0), MESSAGES, "answers received");
	}
	return 0;
}
