// Package tokens reads from requests to language models and from their responses how many tokens
// they use: an estimate before the request, the truth after the response. Gateway, middleware and
// transport share it.
//
// Nothing here holds a body back or keeps it. Scanner looks for a few JSON pointers in text that
// comes in pieces, in memory that depends on the pointers alone, whatever the text is.
package tokens
