// See lazaret_http.h. From libc this uses only what asks nothing of a system: allocation and strings.

#include "lazaret_http.h"

#include <stdlib.h>
#include <string.h>

// ---- texts ----

lz_text lz_text_of(const char *text) { return (lz_text){text, strlen(text)}; }

lz_text lz_text_in(const lz_buffer *buffer) { return (lz_text){buffer->ptr, buffer->len}; }

bool lz_append(lz_buffer *buffer, lz_text more) {
    if (more.len == 0) return true;
    if (more.len > SIZE_MAX - buffer->len) return false;
    size_t needed = buffer->len + more.len;
    if (needed > buffer->room) {
        // Twice as much each time, so that many small pieces don't take the square of their number.
        size_t room = buffer->room > SIZE_MAX / 2 ? needed : buffer->room * 2;
        if (room < needed) room = needed;
        char *grown = realloc(buffer->ptr, room);
        if (grown == NULL) return false;
        buffer->ptr = grown;
        buffer->room = room;
    }
    memcpy(buffer->ptr + buffer->len, more.ptr, more.len);
    buffer->len = needed;
    return true;
}

bool lz_append_number(lz_buffer *buffer, uint64_t number) {
    char digits[20]; // 2^64 has no more
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return lz_append(buffer, (lz_text){digits + at, sizeof digits - at});
}

void lz_buffer_free(lz_buffer *buffer) {
    free(buffer->ptr);
    *buffer = (lz_buffer){0};
}

// Adds two texts, or none of them.
static bool append_both(lz_buffer *buffer, lz_text first, lz_text second) {
    size_t before = buffer->len;
    if (lz_append(buffer, first) && lz_append(buffer, second)) return true;
    buffer->len = before;
    return false;
}

bool lz_append_secret(lz_buffer *buffer, lz_text slot) {
    return append_both(buffer, lz_text_of("lazaret-secret:"), slot);
}

bool lz_append_bearer_secret(lz_buffer *buffer, lz_text slot) {
    return append_both(buffer, lz_text_of("Bearer lazaret-secret:"), slot);
}

// ---- requests ----

// The bindings want texts that could be written to, and only read them.
static agent_string_t lent(lz_text text) { return (agent_string_t){(uint8_t *)text.ptr, text.len}; }

static lz_text seen(agent_string_t text) { return (lz_text){(const char *)text.ptr, text.len}; }

static lz_status out_of_memory(lz_error *error) {
    *error = (lz_error){.status = LZ_NO_MEMORY, .reason = lz_text_of("there is no memory for the request")};
    return LZ_NO_MEMORY;
}

static lz_status faulty(lz_error *error) {
    error->owned = true;
    if (error->raw.tag == LAZARET_HOST_TYPES_FAULT_REFUSED) {
        lazaret_host_types_refusal_t *no = &error->raw.val.refused;
        error->code = seen(no->code);
        error->layer = seen(no->layer);
        error->reason = seen(no->reason);
        error->remedy = seen(no->remedy);
        return error->status = LZ_REFUSED;
    }
    error->reason = seen(error->raw.val.failed);
    return error->status = LZ_FAILED;
}

lz_status lz_http_send(const lz_http_request *request, lz_http_response *response, lz_error *error) {
    memset(response, 0, sizeof *response);
    memset(error, 0, sizeof *error);
    size_t count = request->header_count;
    lazaret_host_http_header_t *headers = NULL;
    if (count > 0) {
        // Multiplies, and says no if that is too much.
        headers = calloc(count, sizeof *headers);
        if (headers == NULL) return out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        headers[i].name = lent(request->headers[i].name);
        headers[i].value = lent(request->headers[i].value);
    }
    lazaret_host_http_request_t ask = {
        .method = lent(request->method.len > 0 ? request->method : lz_text_of("GET")),
        .url = lent(request->url),
        .headers = {headers, count},
        .body = {(uint8_t *)request->body.ptr, request->body.len},
    };
    bool done = lazaret_host_http_fetch(&ask, &response->raw, &error->raw);
    free(headers);
    if (!done) return faulty(error);
    response->status = response->raw.status;
    response->body = (lz_text){(const char *)response->raw.body.ptr, response->raw.body.len};
    return LZ_OK;
}

lz_status lz_http_get(lz_text url, lz_http_response *response, lz_error *error) {
    lz_http_request request = {.url = url};
    return lz_http_send(&request, response, error);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_name(lz_text left, lz_text right) {
    if (left.len != right.len) return false;
    for (size_t i = 0; i < left.len; i++)
        if (lower(left.ptr[i]) != lower(right.ptr[i])) return false;
    return true;
}

lz_text lz_http_header(const lz_http_response *response, lz_text name) {
    for (size_t i = 0; i < response->raw.headers.len; i++) {
        lazaret_host_http_header_t *header = &response->raw.headers.ptr[i];
        if (same_name(seen(header->name), name)) return seen(header->value);
    }
    return (lz_text){NULL, 0};
}

void lz_http_response_free(lz_http_response *response) {
    lazaret_host_http_response_free(&response->raw);
    memset(response, 0, sizeof *response);
}

void lz_error_free(lz_error *error) {
    if (error->owned) lazaret_host_http_fault_free(&error->raw);
    memset(error, 0, sizeof *error);
}
