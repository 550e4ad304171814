// Package accesslog reads the access logs of web servers and proxies, in the order in which the requests came.
//
// [Open] reads files and standard input, compressed or not, of which each may be in a format of its own, and merges
// them by time; [Source.Next] returns one request after the other. Lines that cannot be read are counted and shown by
// example, and stop nothing. Memory is bounded, however long the logs are: see [Options.Slack].
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
package accesslog
