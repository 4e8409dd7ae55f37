// A small HTTP client for durable agents in C, over lazaret:host/http.
//
// One request, one response; a redirect is returned, not followed: whoever follows it asks anew, and decides which headers go
// along. A key is written by its slot and never seen: where it belongs stands its handle, and the host puts the value in.
//
//     lz_http_response found;
//     lz_error error;
//     if (lz_http_get(lz_text_of("https://api.example.com/"), &found, &error) == LZ_OK) {
//         ... found.status, found.body ...
//         lz_http_response_free(&found);
//     } else {
//         ... error.reason ...
//         lz_error_free(&error);
//     }
//
// Texts and bytes have a length and no zero at their end. What is handed in stays the caller's; what comes out has to be freed,
// once, by the function named for it, and only after the call that says so: a response after LZ_OK, an error after anything else.
// To free twice, or what is all zeros, does nothing. Compile lazaret_http.c with the bindings that `componentize bindings` makes.

#ifndef LAZARET_HTTP_H
#define LAZARET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent.h"

// Somebody else's bytes.
typedef struct {
    const char *ptr;
    size_t len;
} lz_text;

// Bytes that grow. All zeros is an empty one.
typedef struct {
    char *ptr;
    size_t len;
    size_t room;
} lz_buffer;

typedef struct {
    lz_text name;
    lz_text value;
} lz_header;

typedef struct {
    lz_text method; // GET if it is empty
    lz_text url;
    const lz_header *headers;
    size_t header_count;
    lz_text body;
} lz_http_request;

typedef struct {
    uint16_t status;
    lz_text body;
    lazaret_host_http_response_t raw; // what the above points into
} lz_http_response;

typedef enum {
    LZ_OK,
    LZ_REFUSED,   // the gate said no: code, layer, reason and remedy say why
    LZ_FAILED,    // permitted and tried, and it did not work: reason says why
    LZ_NO_MEMORY, // nothing was asked
} lz_status;

typedef struct {
    lz_status status;
    lz_text code;
    lz_text layer;
    lz_text reason;
    lz_text remedy;
    lazaret_host_http_fault_t raw; // what the above points into
    bool owned;
} lz_error;

// ---- requests ----

lz_status lz_http_get(lz_text url, lz_http_response *response, lz_error *error);
lz_status lz_http_send(const lz_http_request *request, lz_http_response *response, lz_error *error);

// The first header of this name, in any case; a NULL pointer if there is none.
lz_text lz_http_header(const lz_http_response *response, lz_text name);

void lz_http_response_free(lz_http_response *response);
void lz_error_free(lz_error *error);

// ---- texts ----

// The text up to the zero at its end.
lz_text lz_text_of(const char *text);
lz_text lz_text_in(const lz_buffer *buffer);

// Adds to a buffer. False if there is no memory; the buffer is then as it was.
bool lz_append(lz_buffer *buffer, lz_text more);
bool lz_append_number(lz_buffer *buffer, uint64_t number);
void lz_buffer_free(lz_buffer *buffer);

// Adds the handle of a slot: what stands in a request where the secret belongs.
bool lz_append_secret(lz_buffer *buffer, lz_text slot);
// Adds `Bearer ` and the handle of a slot: the value of an `authorization` header.
bool lz_append_bearer_secret(lz_buffer *buffer, lz_text slot);

#endif
