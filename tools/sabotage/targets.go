package main

// target is a part of the product, and the tests that must detect changes to it.
type target struct {
	name   string
	files  []string // patterns, relative to the root of the module; tests are excluded
	except []string // files to exclude
	stages []stage  // in order, the fastest first: the first one that fails catches the mutant
}

// stage is one call of go test.
type stage struct {
	pkg   string
	run   string // value of the flag -run; empty for all tests
	skip  string // value of the flag -skip
	short bool   // whether to set the flag -short
}

// Tests of redisstore that take seconds, because they start clusters and sentinels, or wait.
const slowRedis = "Cluster|Sentinel|Slot|Rotation|NoNamesInRedis|NamesAreLost"

// This test runs a Lua linter. It is skipped, because a mutant that only a linter rejects is not
// caught by a test.
const lintsLua = "TestScriptsAreValid"

// targets lists everything that make sabotage changes. A package is tested by its own tests and, in
// some cases, by the tests of packages that use it.
var targets = []target{
	{name: "stint", files: []string{"*.go"}, stages: []stage{{pkg: "."}, {pkg: "./memorystore", short: true}}},
	{name: "internal/contract", files: []string{"internal/contract/*.go"}, stages: []stage{
		{pkg: "./internal/contract"}, {pkg: "./memorystore", short: true}, {pkg: "./resilience", short: true}}},
	{name: "internal/algorithm", files: []string{"internal/algorithm/*.go"}, stages: []stage{
		{pkg: "./internal/algorithm"}, {pkg: "./memorystore"}, {pkg: "./internal/oracle"}}},
	{name: "memorystore", files: []string{"memorystore/*.go"}, stages: []stage{{pkg: "./memorystore"}}},
	{name: "redisstore", files: []string{"redisstore/*.go"}, stages: []stage{
		{pkg: "./redisstore", skip: slowRedis + "|" + lintsLua}, {pkg: "./redisstore", run: slowRedis},
		{pkg: "./faults", run: "^TestF3b$"}}},
	{name: "redisstore/lua", files: []string{"redisstore/lua/*.lua"}, stages: []stage{
		{pkg: "./redisstore", run: "^TestSingle$"},
		{pkg: "./redisstore", skip: "^TestSingle$|" + slowRedis + "|" + lintsLua},
		{pkg: "./redisstore", run: slowRedis}}},
	{name: "resilience", files: []string{"resilience/*.go"}, stages: []stage{
		{pkg: "./resilience", short: true}, {pkg: "./internal/histories", short: true}}},
	{name: "policy", files: []string{"policy/*.go"}, except: []string{"policy/path.go"}, stages: []stage{
		{pkg: "./policy"}, {pkg: "./config", short: true}}},
	{name: "policy/path.go", files: []string{"policy/path.go"}, stages: []stage{
		{pkg: "./policy"}, {pkg: "./config", short: true}, {pkg: "./internal/server/gateway", short: true}}},
	{name: "internal/tokens", files: []string{"internal/tokens/*.go"}, stages: []stage{{pkg: "./internal/tokens"}}},
	{name: "internal/pathpattern", files: []string{"internal/pathpattern/*.go"}, stages: []stage{
		{pkg: "./internal/pathpattern"}, {pkg: "./policy"}, {pkg: "./internal/server/gateway", short: true}}},
	{name: "internal/server/gateway", files: []string{"internal/server/gateway/*.go"}, stages: []stage{
		{pkg: "./internal/server/gateway"}}},
	{name: "config", files: []string{"config/*.go"}, stages: []stage{{pkg: "./config", short: true}}},
	{name: "httplimit", files: []string{"httplimit/*.go"}, stages: []stage{{pkg: "./httplimit", short: true}}},
	{name: "grpclimit", files: []string{"grpclimit/*.go"}, stages: []stage{{pkg: "./grpclimit", short: true}}},
	{name: "outbound", files: []string{"outbound/*.go"}, stages: []stage{{pkg: "./outbound"}}},
	{name: "internal/clientip", files: []string{"internal/clientip/*.go"}, stages: []stage{
		{pkg: "./internal/clientip"}, {pkg: "./httplimit", short: true}}},
	{name: "observe", files: []string{"observe/*.go"}, stages: []stage{{pkg: "./observe", short: true}}},
	{name: "internal/server/api", files: []string{"internal/server/api/*.go"}, stages: []stage{
		{pkg: "./internal/server/api", short: true}}},
	{name: "internal/server/envoyrls", files: []string{"internal/server/envoyrls/*.go"}, stages: []stage{
		{pkg: "./internal/server/envoyrls", short: true}}},
}
