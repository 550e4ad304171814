// Package accesslog reads the access logs of web servers and proxies, in the order of their
// requests, for programs that replay traffic.
//
// [Open] opens files and standard input, compressed or not, each in its own format, and merges them
// by time. [Source.Next] returns the requests one by one. Lines that cannot be read are counted,
// and a few are kept as examples. Memory is bounded, however long the logs are: see
// [Options.Slack].
//
//	source, err := accesslog.Open([]string{"access.log", "access.log.1.gz"}, accesslog.Options{})
//	if err != nil {
//		return err
//	}
//	defer source.Close()
//	var r accesslog.Record
//	for {
//		if err := source.Next(&r); err == io.EOF {
//			break
//		} else if err != nil {
//			return err
//		}
//		fmt.Println(r.Client, r.Method, r.Path)
//	}
//
// To add a format, implement [Format] as in combined.go, and list it in format.go. A format in JSON
// needs only a list of keys, in mapping.go. Also add its name to the help text of the --format flag
// in cmd/stint.
package accesslog
