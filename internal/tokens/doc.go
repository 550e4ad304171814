// Package tokens counts the tokens that requests to language models use. It estimates them from the
// request and reads the actual counts from the response. The gateway and the middleware use it
// through package policy. Package outbound and the simulation use it too.
//
// The package does not delay bodies, and keeps at most a kilobyte of a body. Scanner finds the
// values of a few JSON pointers in text that arrives in pieces. Its memory depends only on the
// pointers, not on the text.
package tokens
