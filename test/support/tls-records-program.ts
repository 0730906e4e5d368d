/**
 * A server and a client in C that use OpenSSL in unusual ways: reads with peek, reads of a few bytes, two requests in one record, new keys (TLS 1.3) or
 * handshakes (TLS 1.2) between requests, and `/parts`, a response of which a write accepts one record, so that the next write sends the rest.
 * `program server PORT DIRECTORY`, `program client PORT VERSION`.
 */
export const tlsRecordsSource = `#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *answer = "HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nhello!";

static char parts[100000];

static void answer_in_parts(SSL *ssl)
{
	size_t written = 0;

	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
	for (size_t at = 0; at < sizeof(parts); at += written) {
		if (SSL_write_ex(ssl, parts + at, sizeof(parts) - at, &written) != 1)
			return;
	}
}

static void *serve(void *argument)
{
	SSL *ssl = argument;
	char head[4096], ahead[4];
	size_t length = 0, got;

	while (SSL_peek(ssl, ahead, sizeof(ahead)) > 0 && SSL_read_ex(ssl, head + length, 7, &got) == 1) {
		size_t written;

		length += got;
		for (char *end; (end = memmem(head, length, "\\r\\n\\r\\n", 4)); ) {
			int is_in_parts = !memcmp(head, "GET /parts", 10);

			length -= end + 4 - head;
			memmove(head, end + 4, length);
			if (is_in_parts)
				answer_in_parts(ssl);
			else
				SSL_write_ex(ssl, answer, strlen(answer), &written);
		}
	}
	int fd = SSL_get_fd(ssl);
	SSL_free(ssl);
	close(fd);
	return 0;
}

static int server(struct sockaddr_in *address, const char *directory)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char path[4096];

	memset(parts, 'x', sizeof(parts));
	memcpy(parts, "HTTP/1.1 200 OK\\r\\nContent-Length: 99958\\r\\n\\r\\n", 42);
	parts[sizeof(parts) - 1] = '!';
	SSL_CTX_set_options(context, SSL_OP_ALLOW_CLIENT_RENEGOTIATION);
	snprintf(path, sizeof(path), "%s/cert.pem", directory);
	SSL_CTX_use_certificate_file(context, path, SSL_FILETYPE_PEM);
	snprintf(path, sizeof(path), "%s/key.pem", directory);
	SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	bind(listener, (void *)address, sizeof(*address));
	listen(listener, 16);
	for (;;) {
		int fd = accept(listener, 0, 0);
		SSL *ssl = SSL_new(context);
		pthread_t thread;

		SSL_set_fd(ssl, fd);
		if (SSL_accept(ssl) == 1)
			pthread_create(&thread, 0, serve, ssl);
	}
}

static void read_answers(SSL *ssl, int count)
{
	char bytes[11];

	while (count > 0) {
		int length = SSL_read(ssl, bytes, sizeof(bytes));

		if (length <= 0)
			exit(1);
		for (int at = 0; at < length; at++)
			count -= bytes[at] == '!';
	}
}

static int client(struct sockaddr_in *address, int version)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	int fd = socket(AF_INET, SOCK_STREAM, 0), count;
	char path[128], request[512];
	SSL *ssl;

	SSL_CTX_set_max_proto_version(context, version);
	ssl = SSL_new(context);
	connect(fd, (void *)address, sizeof(*address));
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) != 1)
		return 1;
	while (scanf("%127s %d", path, &count) == 2) {
		int at_once = strncmp(path, "/twice", 6) ? 1 : 2;

		for (int number = 0; number < count; number += at_once) {
			int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\\r\\nHost: records\\r\\n\\r\\n", path);

			if (at_once == 2)
				length += snprintf(request + length, sizeof(request) - length, "GET %s HTTP/1.1\\r\\nHost: records\\r\\n\\r\\n", path);
			if (SSL_write(ssl, request, length) != length)
				return 1;
			read_answers(ssl, at_once);
			if (number % 5 != 4)
				continue;
			if (version == TLS1_3_VERSION)
				SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
			else
				SSL_renegotiate(ssl);
			if (SSL_do_handshake(ssl) != 1)
				return 1;
		}
		printf("done\\n");
		fflush(stdout);
	}
	return 0;
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (count < 4)
		return 1;
	address.sin_port = htons(atoi(arguments[2]));
	if (!strcmp(arguments[1], "server"))
		return server(&address, arguments[3]);
	return client(&address, strcmp(arguments[3], "1.2") ? TLS1_3_VERSION : TLS1_2_VERSION);
}
`;
