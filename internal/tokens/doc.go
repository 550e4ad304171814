// Package tokens counts the tokens that requests to language models use: it estimates them from the
// request and reads the actual counts from the response. The gateway and the middleware (package
// policy), the transport (package outbound) and the simulation share it.
//
// The package does not delay bodies, and keeps at most the last kilobyte of one. Scanner finds the
// values of a few JSON pointers in text that arrives in pieces. Its memory depends only on the
// pointers, not on the text.
package tokens
