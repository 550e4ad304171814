// Package tokens reads how many tokens requests to language models use: an estimate from the
// request, and the actual counts from the response. Gateway, middleware and transport share it.
//
// The package does not delay bodies, and keeps at most the last kilobyte of one. Scanner looks for a
// few JSON pointers in text that arrives in pieces. Its memory depends only on the pointers, not on
// the text.
package tokens
