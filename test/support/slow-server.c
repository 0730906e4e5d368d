// A small HTTP/1.1 server whose builds differ in latency and errors: each request takes DELAY_US, and every FAIL_EACH-th one fails.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *serve(void *argument) {
  int fd = (int)(long)argument;
  char request[4096];
  unsigned count = 0;
  for (;;) {
    size_t length = 0;
    while (length < sizeof request - 1) {
      ssize_t got = read(fd, request + length, sizeof request - 1 - length);
      if (got <= 0) goto end;
      length += (size_t)got;
      request[length] = 0;
      if (strstr(request, "\r\n\r\n")) break;
    }
    usleep(DELAY_US);
    const char *answer = FAIL_EACH && ++count % (FAIL_EACH + 0u + !FAIL_EACH) == 0
                             ? "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nno\n"
                             : "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
    if (write(fd, answer, strlen(answer)) < 0) goto end;
  }
end:
  close(fd);
  return NULL;
}

int main(int argc, char **argv) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argc > 1 ? argv[1] : "0"))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) return 1;
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    pthread_t thread;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(long)fd) == 0) pthread_detach(thread);
  }
}
