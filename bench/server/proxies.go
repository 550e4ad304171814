package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/stint-limiter/stint/bench/server/process"
)

// proxies pass requests on to an upstream. nginx and Caddy are the last two, to which all are
// compared.
var proxies = []struct {
	name  string
	start func(ctx context.Context, p *programs, rack *process.Rack, upstream string) (address string, err error)
}{
	{"stint gateway, memory", func(ctx context.Context, p *programs, rack *process.Rack, upstream string) (
		string, error) {
		return startGateway(ctx, p, rack, upstream, "memory")
	}},
	{"stint gateway, Redis", func(ctx context.Context, p *programs, rack *process.Rack, upstream string) (
		string, error) {
		redis, err := rack.Redis(ctx)
		if err != nil {
			return "", err
		}
		return startGateway(ctx, p, rack, upstream, "redis://"+redis.Address)
	}},
	{"nginx", startNginx},
	{"Caddy", startCaddy},
}

func startGateway(ctx context.Context, p *programs, rack *process.Rack, upstream, store string) (string, error) {
	config, err := rack.Write("stint/stint.yaml", generous)
	if err != nil {
		return "", err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return "", err
	}
	_, err = rack.Start(ctx, address, nil, p.stint, "gateway", "--upstream", "http://"+upstream, "--config", config,
		"--store", store,
		"--listen", address, "--admin", "", "--drain", "0s", "--no-access-log")
	return address, err
}

const nginxConfig = `daemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 1000000000;
	upstream bare {
		server %[2]s;
		keepalive 256;
		keepalive_requests 1000000000;
	}
	server {
		listen %[1]s;
		location / {
			proxy_pass http://bare;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
	}
}
`

func startNginx(ctx context.Context, _ *programs, rack *process.Rack, upstream string) (string, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return "", err
	}
	config, err := rack.Write("nginx/nginx.conf", fmt.Sprintf(nginxConfig, address, upstream))
	if err != nil {
		return "", err
	}
	_, err = rack.Start(ctx, address, nil, "nginx", "-e", "stderr", "-p", filepath.Dir(config), "-c", config)
	return address, err
}

const caddyConfig = `{
	admin off
	auto_https off
}
http://%s {
	reverse_proxy %s
}
`

func startCaddy(ctx context.Context, _ *programs, rack *process.Rack, upstream string) (string, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return "", err
	}
	config, err := rack.Write("caddy/Caddyfile", fmt.Sprintf(caddyConfig, address, upstream))
	if err != nil {
		return "", err
	}
	home := filepath.Dir(config)
	_, err = rack.Start(ctx, address, []string{"HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home},
		"caddy", "run", "--adapter", "caddyfile", "--config", config)
	return address, err
}
