package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/stint-limiter/stint/bench/internal/process"
)

// proxies forward requests to an upstream. All are compared with nginx and Caddy, which are the
// last two.
var proxies = []struct {
	name  string
	start func(ctx context.Context, p *programs, rack *process.Rack, upstream string) (address string)
}{
	{"stint gateway, memory", func(ctx context.Context, p *programs, rack *process.Rack, upstream string) string {
		return p.startGateway(ctx, rack, generous, "memory", upstream).Address
	}},
	{"stint gateway, Redis", func(ctx context.Context, p *programs, rack *process.Rack, upstream string) string {
		return p.startGateway(ctx, rack, generous, "redis://"+rack.Redis(ctx).Address, upstream).Address
	}},
	{"nginx", startNginx},
	{"Caddy", startCaddy},
}

func (p *programs) startGateway(ctx context.Context, rack *process.Rack, config, store,
	upstream string) *process.Process {
	return p.start(ctx, rack, "gateway", "--listen", config, store, "--upstream", "http://"+upstream, "--no-access-log")
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

func startNginx(ctx context.Context, _ *programs, rack *process.Rack, upstream string) string {
	address := process.FreeAddress()
	config := rack.Write("nginx/nginx.conf", fmt.Sprintf(nginxConfig, address, upstream))
	rack.Start(ctx, address, nil, "nginx", "-e", "stderr", "-p", filepath.Dir(config), "-c", config)
	return address
}

const caddyConfig = `{
	admin off
	auto_https off
}
http://%s {
	reverse_proxy %s
}
`

func startCaddy(ctx context.Context, _ *programs, rack *process.Rack, upstream string) string {
	address := process.FreeAddress()
	config := rack.Write("caddy/Caddyfile", fmt.Sprintf(caddyConfig, address, upstream))
	home := filepath.Dir(config)
	rack.Start(ctx, address, []string{"HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home},
		"caddy", "run", "--adapter", "caddyfile", "--config", config)
	return address
}
