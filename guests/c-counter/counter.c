// The counter agent, in C. The same commands as its siblings in Rust, JavaScript and Python, so that one table of tests
// drives all four. What it remembers lives in ordinary memory: the host keeps that between turns.
//
// From libc it uses only what asks nothing of a system: allocation, strings and snprintf. stdio on a file, the clock or
// the environment would bring WASI imports, and a durable agent may have none. A command ends at its first zero byte.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"

typedef agent_string_t text_t;
typedef lazaret_host_types_fault_t fault_t;

// What is kept from turn to turn.
static int64_t *numbers;
static size_t number_count;
static int64_t total;
static char **rolls;
static size_t roll_count;

// ---- text ----

static void *grow(void *block, size_t size) {
    void *grown = realloc(block, size);
    if (grown == NULL) __builtin_trap();
    return grown;
}

// A copy with its own memory: the bindings free what is handed over.
static text_t owned(const char *text) {
    text_t copy;
    agent_string_dup(&copy, text);
    return copy;
}

static text_t borrowed(const char *text) {
    text_t view;
    agent_string_set(&view, text);
    return view;
}

static const text_t nothing = {NULL, 0};

static agent_list_u8_t bytes_of(text_t text) { return (agent_list_u8_t){text.ptr, text.len}; }

static text_t join(text_t left, text_t right) {
    uint8_t *out = grow(NULL, left.len + right.len + 1);
    memcpy(out, left.ptr, left.len);
    memcpy(out + left.len, right.ptr, right.len);
    return (text_t){out, left.len + right.len};
}

// Appends to `text`, which owns its memory or is `nothing`.
static void append(text_t *text, const char *more) {
    size_t len = strlen(more);
    text->ptr = grow(text->ptr, text->len + len + 1);
    memcpy(text->ptr + text->len, more, len);
    text->len += len;
}

// Ends the first word with a zero and returns what follows the space after it.
static char *split(char *text) {
    char *space = strchr(text, ' ');
    if (space == NULL) return text + strlen(text);
    *space = '\0';
    return space + 1;
}

static bool is_utf8(const uint8_t *at, size_t len) {
    const uint8_t *end = at + len;
    while (at < end) {
        uint8_t lead = *at++;
        if (lead < 0x80) continue;
        int rest = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || end - at < rest) return false;
        // The second byte's range rules out overlong forms, surrogates and what lies past U+10FFFF.
        uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (*at < low || *at > high) return false;
        for (int i = 1; i < rest; i++)
            if ((at[i] & 0xc0) != 0x80) return false;
        at += rest;
    }
    return true;
}

// ---- commands: each returns an owned reply, or sets `fault` ----

static text_t add(int64_t number, fault_t *fault, bool *ok) {
    numbers = grow(numbers, (number_count + 1) * sizeof *numbers);
    numbers[number_count++] = number;
    total = (int64_t)((uint64_t)total + (uint64_t)number);

    char line[80];
    snprintf(line, sizeof line, "%" PRId64, total);
    text_t key = borrowed("total");
    agent_list_u8_t value = bytes_of(borrowed(line));
    uint64_t version;
    *ok = lazaret_host_storage_set(&key, &value, &version, fault);
    snprintf(line, sizeof line, "total=%" PRId64 " count=%zu", total, number_count);
    return owned(line);
}

static text_t recall(void) {
    text_t out = nothing;
    for (size_t i = 0; i < number_count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%s%" PRId64, i == 0 ? "" : ",", numbers[i]);
        append(&out, number);
    }
    return out;
}

static text_t stored(fault_t *fault, bool *ok) {
    text_t key = borrowed("total");
    lazaret_host_storage_option_entry_t found;
    *ok = lazaret_host_storage_get(&key, &found, fault);
    if (!*ok) return nothing;
    if (!found.is_some) return owned("stored=none");
    char version[24];
    snprintf(version, sizeof version, "@%" PRIu64, found.val.version);
    text_t out = join(borrowed("stored="), (text_t){found.val.value.ptr, found.val.value.len});
    append(&out, version);
    lazaret_host_storage_option_entry_free(&found);
    return out;
}

static text_t roll(fault_t *fault, bool *ok) {
    agent_list_u8_t bytes;
    *ok = lazaret_host_random_bytes(8, &bytes, fault);
    if (!*ok) return nothing;
    char line[64] = "random=";
    size_t at = strlen(line);
    for (size_t i = 0; i < bytes.len && i < 8; i++) at += snprintf(line + at, sizeof line - at, "%02x", bytes.ptr[i]);
    agent_list_u8_free(&bytes);

    uint64_t now;
    *ok = lazaret_host_clock_now(&now, fault);
    if (!*ok) return nothing;
    snprintf(line + at, sizeof line - at, " now=%016" PRIx64, now);

    rolls = grow(rolls, (roll_count + 1) * sizeof *rolls);
    rolls[roll_count] = grow(NULL, strlen(line) + 1);
    strcpy(rolls[roll_count++], line);
    return owned(line);
}

static text_t list_rolls(void) {
    text_t out = nothing;
    for (size_t i = 0; i < roll_count; i++) {
        if (i > 0) append(&out, ",");
        append(&out, rolls[i]);
    }
    return out;
}

static text_t request(const char *method, const char *url, const char *body, fault_t *fault, bool *ok) {
    lazaret_host_http_request_t ask = {
        .method = borrowed(method),
        .url = borrowed(url),
        .headers = {NULL, 0},
        .body = bytes_of(borrowed(body)),
    };
    lazaret_host_http_response_t response;
    *ok = lazaret_host_http_fetch(&ask, &response, fault);
    if (!*ok) return nothing;
    char line[48];
    snprintf(line, sizeof line, "status=%u bytes=%zu", response.status, response.body.len);
    lazaret_host_http_response_free(&response);
    return owned(line);
}

// A request with one header; `-` for none. The answer's body stands behind its status.
static text_t call(const char *method, const char *url, const char *name, const char *value, fault_t *fault, bool *ok) {
    lazaret_host_http_header_t header = {borrowed(name), borrowed(value)};
    lazaret_host_http_request_t ask = {
        .method = borrowed(method),
        .url = borrowed(url),
        .headers = {&header, strcmp(name, "-") == 0 ? 0 : 1},
        .body = {NULL, 0},
    };
    lazaret_host_http_response_t response;
    *ok = lazaret_host_http_fetch(&ask, &response, fault);
    if (!*ok) return nothing;
    char line[24];
    snprintf(line, sizeof line, "status=%u ", response.status);
    text_t answer = join(borrowed(line), (text_t){response.body.ptr, response.body.len});
    lazaret_host_http_response_free(&response);
    return answer;
}

static text_t handle_of(const char *slot, fault_t *fault, bool *ok) {
    text_t name = borrowed(slot), handle;
    *ok = lazaret_host_secrets_handle(&name, &handle, fault);
    return *ok ? handle : nothing;
}

static text_t call_tool(const char *name, const char *arguments, fault_t *fault, bool *ok) {
    text_t tool = borrowed(name), json = borrowed(arguments), result;
    *ok = lazaret_host_tools_call(&tool, &json, &result, fault);
    return *ok ? result : nothing;
}

static text_t ask(const char *question, fault_t *fault, bool *ok) {
    lazaret_host_model_utterance_t utterance = {LAZARET_HOST_MODEL_ROLE_USER, borrowed(question)};
    lazaret_host_model_prompt_t prompt = {borrowed("rehearsal/echo"), {&utterance, 1}, 256};
    lazaret_host_model_completion_t completion;
    *ok = lazaret_host_model_generate(&prompt, &completion, fault);
    return *ok ? completion.text : nothing;
}

static text_t tell(const char *to, const char *body, fault_t *fault, bool *ok) {
    text_t agent = borrowed(to), kind = borrowed("text/plain");
    agent_list_u8_t bytes = bytes_of(borrowed(body));
    uint32_t number = 0;
    *ok = lazaret_host_agents_send(&agent, &kind, &bytes, &number, fault);
    char line[24];
    snprintf(line, sizeof line, "sent=%" PRIu32, number);
    return owned(line);
}

static text_t say(const char *words, fault_t *fault, bool *ok) {
    text_t line = borrowed(words);
    *ok = lazaret_host_log_write(LAZARET_HOST_LOG_LEVEL_INFO, &line, fault);
    return owned("said");
}

static text_t describe(fault_t *fault) {
    text_t out;
    if (fault->tag == LAZARET_HOST_TYPES_FAULT_REFUSED) {
        text_t code = join(borrowed("refused: "), fault->val.refused.code);
        append(&code, " ");
        out = join(code, fault->val.refused.reason);
        agent_string_free(&code);
    } else {
        out = join(borrowed("failed: "), fault->val.failed);
    }
    lazaret_host_types_fault_free(fault);
    return out;
}

// ---- one turn ----

static bool bad(const char *what, const char *detail, agent_failure_t *err) {
    err->tag = LAZARET_HOST_TYPES_FAILURE_BAD_INPUT;
    err->val.bad_input = join(borrowed(what), borrowed(detail));
    return false;
}

static bool is_whole(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    const char *digits = text + (*text == '-' || *text == '+');
    return errno == 0 && *digits >= '0' && *digits <= '9' && *end == '\0';
}

static bool obey(char *command, agent_reply_t *ret, agent_failure_t *err) {
    char *rest = split(command);
    fault_t fault;
    bool ok = true;
    text_t out;
    if (strcmp(command, "add") == 0) {
        int64_t number;
        if (!is_whole(rest, &number)) return bad("not a whole number: ", rest, err);
        out = add(number, &fault, &ok);
    } else if (strcmp(command, "recall") == 0) {
        out = recall();
    } else if (strcmp(command, "stored") == 0) {
        out = stored(&fault, &ok);
    } else if (strcmp(command, "roll") == 0) {
        out = roll(&fault, &ok);
    } else if (strcmp(command, "rolls") == 0) {
        out = list_rolls();
    } else if (strcmp(command, "fetch") == 0) {
        out = request("GET", rest, "", &fault, &ok);
    } else if (strcmp(command, "post") == 0) {
        char *body = split(rest);
        out = request("POST", rest, body, &fault, &ok);
    } else if (strcmp(command, "call") == 0) {
        char *url = split(rest), *name = split(url), *value = split(name);
        out = call(rest, url, name, value, &fault, &ok);
    } else if (strcmp(command, "handle") == 0) {
        out = handle_of(rest, &fault, &ok);
    } else if (strcmp(command, "tool") == 0) {
        char *arguments = split(rest);
        out = call_tool(rest, arguments, &fault, &ok);
    } else if (strcmp(command, "ask") == 0) {
        out = ask(rest, &fault, &ok);
    } else if (strcmp(command, "tell") == 0) {
        char *body = split(rest);
        out = tell(rest, body, &fault, &ok);
    } else if (strcmp(command, "say") == 0) {
        out = say(rest, &fault, &ok);
    } else if (strcmp(command, "spin") == 0) {
        for (volatile int turning = 1; turning;) {
        }
        out = nothing;
    } else if (strcmp(command, "fail") == 0) {
        err->tag = LAZARET_HOST_TYPES_FAILURE_FAILED;
        err->val.failed = owned(rest);
        return false;
    } else if (strcmp(command, "crash") == 0) {
        __builtin_trap();
    } else {
        return bad("unknown command: ", command, err);
    }
    if (!ok) {
        agent_string_free(&out);
        out = describe(&fault);
    }
    ret->content_type = owned("text/plain; charset=utf-8");
    ret->body = bytes_of(out);
    return true;
}

bool exports_agent_handle(agent_message_t *input, agent_reply_t *ret, agent_failure_t *err) {
    bool done;
    if (is_utf8(input->body.ptr, input->body.len)) {
        char *text = grow(NULL, input->body.len + 1);
        memcpy(text, input->body.ptr, input->body.len);
        text[input->body.len] = '\0';
        done = obey(text, ret, err);
        free(text);
    } else {
        done = bad("the body is not UTF-8", "", err);
    }
    agent_message_free(input);
    return done;
}
