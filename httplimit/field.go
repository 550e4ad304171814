package httplimit

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxField is the maximum length in bytes of a body that [FormField] and [JSONField] search.
const maxField = 64 << 10

// FormField distinguishes requests by a field of the form that they post, such as the account of a
// login. It reads up to 64 KiB of the body, and restores the body for the handler. The key contains
// a hash of the value, in lower case and without surrounding spaces. The form must have the type
// application/x-www-form-urlencoded; see [JSONField] for the other common type.
//
// All requests from which the field cannot be read share one key:
//   - requests with a method other than POST, PUT and PATCH
//   - requests with another type of body, or with a longer or compressed body
//   - requests without the field, or with more than one value for it
//
// Values in the query count too, and the case of field names does not matter. So a client cannot
// evade the limit of an account with a request that the application reads in another way. Use
// FormField only for the handler of the form.
//
// An application may treat different values as equal, such as two Unicode forms of the same text,
// or addresses of one mailbox with and without dots. FormField gives them different keys: for such
// values, write a KeyFunc.
//
// The server's ReadTimeout limits the time that a body may take to arrive. FormField panics if name
// is empty.
func FormField(name string) KeyFunc {
	return field("FormField", name, func(r *http.Request, body []byte) (found []string) {
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
		default: // for other methods, net/http reads only the query
			return nil
		}
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind != "application/x-www-form-urlencoded" {
			return nil
		}
		for _, text := range []string{string(body), r.URL.RawQuery} {
			values, err := url.ParseQuery(text)
			if err != nil {
				return nil
			}
			for member, all := range values {
				if strings.EqualFold(member, name) {
					found = append(found, all...)
				}
			}
		}
		return found
	})
}

// JSONField is like [FormField], but for a member of the object in a JSON body, regardless of
// Content-Type and method. The value must be a string or a whole number. Like encoding/json,
// JSONField ignores case in names. It does not read the query.
func JSONField(name string) KeyFunc {
	return field("JSONField", name, func(_ *http.Request, body []byte) (found []string) {
		in := json.NewDecoder(bytes.NewReader(body))
		in.UseNumber()
		if open, err := in.Token(); err != nil || open != json.Delim('{') {
			return nil
		}
		for in.More() {
			member, err := in.Token()
			var value any
			if err == nil {
				err = in.Decode(&value)
			}
			if err != nil {
				return nil
			}
			if !strings.EqualFold(member.(string), name) {
				continue
			}
			switch value := value.(type) {
			case string:
				found = append(found, value)
			case json.Number: // reject 42.0 and 4.2e1, which the application may read as 42
				n, err := value.Int64()
				if err != nil {
					return nil
				}
				found = append(found, strconv.FormatInt(n, 10))
			default:
				return nil
			}
		}
		if _, err := in.Token(); err != nil {
			return nil
		}
		return found
	})
}

// field returns a KeyFunc that makes a key from the value that find returns for a body. If find
// does not return exactly one value, the key ends with "unknown".
func field(constructor, name string, find func(r *http.Request, body []byte) []string) KeyFunc {
	if name == "" {
		panic("httplimit: " + constructor + ": the name is empty; want the name of a field, such as email")
	}
	kind := strings.ToLower(name) + ":"
	return func(r *http.Request) string {
		body := peekBody(r)
		if len(body) <= maxField && r.Header.Get("Content-Encoding") == "" {
			if values := find(r, body); len(values) == 1 {
				if value := strings.ToLower(strings.TrimSpace(values[0])); value != "" {
					return kind + hashed(value)
				}
			}
		}
		return kind + "unknown"
	}
}

// peekBody returns the first maxField + 1 bytes of a body, or all that could be read if there are
// fewer, and puts them back.
func peekBody(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, maxField+1))
	rest := io.Reader(r.Body)
	switch {
	case err != nil:
		rest = failed{err} // the handler gets the error too
	case len(head) <= maxField:
		rest = http.NoBody
	}
	r.Body = &putBack{io.MultiReader(bytes.NewReader(head), rest), r.Body}
	return head
}

// failed replaces the rest of a body after a read error. Its Read returns that error again.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
