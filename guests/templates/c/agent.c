// An agent that counts what it hears.

#include <stdio.h>

#include "agent.h"

// Ordinary memory: the host keeps it between turns, also while the agent sleeps on disk.
static unsigned heard;

// A fault's text, for the reply. All that reaches outside is an ask, and any ask can be refused.
static void explain(lazaret_host_types_fault_t *fault, agent_failure_t *err) {
    agent_string_t *text =
        fault->tag == LAZARET_HOST_TYPES_FAULT_REFUSED ? &fault->val.refused.reason : &fault->val.failed;
    err->tag = LAZARET_HOST_TYPES_FAILURE_FAILED;
    agent_string_dup_n(&err->val.failed, (const char *)text->ptr, text->len);
    lazaret_host_types_fault_free(fault);
}

bool exports_agent_handle(agent_message_t *input, agent_reply_t *ret, agent_failure_t *err) {
    lazaret_host_types_fault_t fault;
    char line[80];
    int len = snprintf(line, sizeof line, "I have heard %u so far, the last of %zu bytes", ++heard, input->body.len);
    agent_message_free(input);

    agent_string_t text = {(uint8_t *)line, (size_t)len};
    if (!lazaret_host_log_write(LAZARET_HOST_LOG_LEVEL_INFO, &text, &fault)) {
        explain(&fault, err);
        return false;
    }

    agent_string_t key;
    agent_string_set(&key, "heard");
    agent_list_u8_t value = {text.ptr, text.len};
    uint64_t version;
    if (!lazaret_host_storage_set(&key, &value, &version, &fault)) {
        explain(&fault, err);
        return false;
    }

    // The bindings free what a reply holds, so it holds copies.
    agent_string_t body;
    agent_string_dup_n(&body, line, (size_t)len);
    agent_string_dup(&ret->content_type, "text/plain; charset=utf-8");
    ret->body = (agent_list_u8_t){body.ptr, body.len};
    return true;
}
